"""The DRAM of a device as an array of this process, with a first-fit allocator.

Every access must lie within one allocated block.
"""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.devices.device import ALIGNMENT, DeviceError
from vdla.support.integers import is_int

Bytes = NDArray[np.uint8]
MOST_BYTES = 1 << 40


class Allocator:
    """`size` zeroed bytes; untouched pages take no memory."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        size = self._integer("size of memory in bytes", size)
        if not 1 <= size <= MOST_BYTES:
            raise DeviceError(f"device {name}: size of memory in bytes must be from 1 to {MOST_BYTES}, got {size}")
        try:
            self.data = np.zeros(size, np.uint8)
        except MemoryError:
            raise DeviceError(
                f"device {name}: cannot allocate {size} bytes of DRAM; open the device with fewer memory_bytes"
            ) from None
        self._blocks: list[tuple[int, int]] = []

    def _integer(self, what: str, value: object) -> int:
        """A Python or NumPy integer as a Python integer; DeviceError for anything else."""
        if not is_int(value):
            raise DeviceError(f"device {self.name}: {what} must be an integer, got {value!r}")
        return int(value)

    def allocate(self, nbytes: int) -> int:
        """The address of a zeroed block; DeviceError when no gap is large enough."""
        nbytes = self._integer("allocation in bytes", nbytes)
        if nbytes < 1:
            raise DeviceError(f"device {self.name}: allocation in bytes must be at least 1, got {nbytes}")
        address = self._gap(nbytes)
        insort(self._blocks, (address, nbytes))
        self.data[address : address + nbytes] = 0
        return address

    def _gap(self, nbytes: int) -> int:
        """The address of the first gap of at least `nbytes`."""
        begin = largest = 0
        for start, size in [*self._blocks, (len(self.data), 0)]:
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
            if block[0] == address:
                self._blocks.remove(block)
                return
        raise DeviceError(f"device {self.name}: address to free must be one that allocate returned, got {address}")

    def window(self, address: int, nbytes: int) -> Bytes:
        """A view of `nbytes` at an address; DeviceError unless they lie in one block."""
        address, nbytes = self._integer("address", address), self._integer("number of bytes", nbytes)
        index = bisect_right(self._blocks, (address, len(self.data) + 1)) - 1
        start, size = self._blocks[index] if index >= 0 else (0, 0)
        if nbytes < 0 or address < start or address + nbytes > start + size:
            raise DeviceError(
                f"device {self.name}: access must lie in one allocated block, got {nbytes} bytes at {address}"
            )
        return self.data[address : address + nbytes]
