# SPDX-License-Identifier: Apache-2.0
"""The DRAM of a device as an array of this process, with a first-fit allocator.

Every access must lie within one allocated block. A block's address is its place in the array,
unless it is placed at an address of the caller's choice.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.devices.device import ALIGNMENT, DeviceError
from vdla.runtime.devices.request_checks import MOST_BYTES, require_integer, require_memory_bytes, require_size

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, order=True)
class AllocatedBlock:
    """A range of addresses, and its first byte in the array."""

    address: int
    nbytes: int
    offset: int


class Allocator:
    """`size` zeroed bytes; untouched pages take no memory."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        size = require_memory_bytes(f"device {name}", size)
        try:
            self.data = np.zeros(size, np.uint8)
        except MemoryError:
            raise DeviceError(
                f"device {name}: cannot allocate {size} bytes of DRAM; open the device with fewer memory_bytes"
            ) from None
        self._blocks: list[AllocatedBlock] = []

    def _integer(self, what: str, value: object) -> int:
        return require_integer(f"device {self.name}", what, value)

    # --- blocks

    def allocate(self, nbytes: int) -> int:
        """The address of a zeroed block; DeviceError when no gap is large enough."""
        offset = self._gap(require_size(f"device {self.name}", nbytes))
        return self._add(AllocatedBlock(offset, nbytes, offset))

    def allocate_at(self, address: int, nbytes: int) -> int:
        """A zeroed block at an address beyond the array; DeviceError where it overlaps another."""
        address = self._integer("address of an allocation", address)
        nbytes = require_size(f"device {self.name}", nbytes)
        low, high = len(self.data), MOST_BYTES - nbytes
        if not low <= address <= high:
            raise DeviceError(
                f"device {self.name}: address of {nbytes} bytes must be from {low} to {high}, got {address}"
            )
        for block in self._blocks:
            if address < block.address + block.nbytes and block.address < address + nbytes:
                raise DeviceError(
                    f"device {self.name}: {nbytes} bytes at {address} must not overlap a block, "
                    f"got {block.nbytes} bytes at {block.address}"
                )
        return self._add(AllocatedBlock(address, nbytes, self._gap(nbytes)))

    def _add(self, block: AllocatedBlock) -> int:
        insort(self._blocks, block)
        self.data[block.offset : block.offset + block.nbytes] = 0
        return block.address

    def _gap(self, nbytes: int) -> int:
        """The offset of the first gap of at least `nbytes`."""
        begin = largest = 0
        blocks = sorted((block.offset, block.nbytes) for block in self._blocks)
        for start, size in [*blocks, (len(self.data), 0)]:
            if start - begin >= nbytes:
                return begin
            largest = max(largest, start - begin)
            begin = -(-(start + size) // ALIGNMENT) * ALIGNMENT
        raise DeviceError(
            f"device {self.name}: cannot allocate {nbytes} bytes of DRAM, the largest gap has {largest}; "
            "free tensors or open the device with more memory_bytes"
        )

    def free(self, address: int) -> None:
        """Free the block at an address."""
        address = self._integer("address to free", address)
        for block in self._blocks:
            if block.address == address:
                self._blocks.remove(block)
                return
        raise DeviceError(f"device {self.name}: address to free must be one that allocate returned, got {address}")

    # --- addresses

    def window(self, address: int, nbytes: int) -> Bytes:
        """A view of `nbytes` at an address; DeviceError unless they lie in one block."""
        address, nbytes = self._integer("address", address), self._integer("number of bytes", nbytes)
        block = self._block(address)
        if block is None or nbytes < 0 or address + nbytes > block.address + block.nbytes:
            raise DeviceError(
                f"device {self.name}: access must lie in one allocated block, got {nbytes} bytes at {address}"
            )
        start = block.offset + address - block.address
        return self.data[start : start + nbytes]

    def offset(self, address: int) -> int:
        """The place in the array of an address."""
        block = self._block(address)
        return address if block is None else block.offset + address - block.address

    def _block(self, address: int) -> AllocatedBlock | None:
        """The last block that begins at or below an address."""
        index = bisect_right(self._blocks, address, key=lambda block: block.address) - 1
        return self._blocks[index] if index >= 0 else None

    def windows(self) -> list[AllocatedBlock]:
        """The addresses that the machine reaches: the whole array, or only the blocks if some block
        is placed.
        """
        if all(block.address == block.offset for block in self._blocks):
            return [AllocatedBlock(0, len(self.data), 0)]
        return list(self._blocks)
