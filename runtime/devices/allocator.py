"""Allocation in a flat memory: first fit over a sorted list of blocks.

Every access must lie inside one allocated block; the error names the block's neighbour that was missed.
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
    """`size` bytes, all zero."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        size = self._integer("size of memory in bytes", size)
        if not 1 <= size <= MOST_BYTES:
            raise DeviceError(f"device {name}: size of memory in bytes must be from 1 to {MOST_BYTES}, got {size}")
        try:
            self.data = np.zeros(size, np.uint8)
        except MemoryError:
            raise DeviceError(f"device {name}: size of memory in bytes must be what there is, got {size}") from None
        self._blocks: list[tuple[int, int]] = []

    def _integer(self, what: str, value: object) -> int:
        """The value, which must be an integer, of Python's or numpy's."""
        if not is_int(value):
            raise DeviceError(f"device {self.name}: {what} must be an integer, got {value!r}")
        return int(value)

    def allocate(self, nbytes: int) -> int:
        """The address of a fresh block of zeros; DeviceError when there is no room."""
        nbytes = self._integer("allocation in bytes", nbytes)
        if nbytes < 1:
            raise DeviceError(f"device {self.name}: allocation must be of at least 1 byte, got {nbytes}")
        address = self._gap(nbytes)
        insort(self._blocks, (address, nbytes))
        self.data[address : address + nbytes] = 0
        return address

    def _gap(self, nbytes: int) -> int:
        begin = 0
        for start, size in self._blocks:
            if start - begin >= nbytes:
                return begin
            begin = -(-(start + size) // ALIGNMENT) * ALIGNMENT
        if len(self.data) - begin < nbytes:
            free = max(0, len(self.data) - begin)
            raise DeviceError(f"device {self.name}: allocation must fit {free} free bytes, got {nbytes}")
        return begin

    def free(self, address: int) -> None:
        """Give a block back."""
        address = self._integer("address to free", address)
        for block in self._blocks:
            if block[0] == address:
                self._blocks.remove(block)
                return
        raise DeviceError(f"device {self.name}: address to free must be that of a block, got {address}")

    def window(self, address: int, nbytes: int) -> Bytes:
        """The bytes from an address on, as a view; DeviceError unless one block holds them all."""
        address, nbytes = self._integer("address", address), self._integer("number of bytes", nbytes)
        index = bisect_right(self._blocks, (address, len(self.data) + 1)) - 1
        start, size = self._blocks[index] if index >= 0 else (0, 0)
        if nbytes < 0 or address < start or address + nbytes > start + size:
            raise DeviceError(
                f"device {self.name}: access must lie in one allocated block, got {nbytes} bytes at {address}"
            )
        return self.data[address : address + nbytes]
