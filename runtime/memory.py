"""Allocation in a flat memory: first fit over a sorted list of blocks.

Every access must lie inside one allocated block; the error names the block's neighbour that was missed.
"""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.device import ALIGNMENT, DeviceError

Bytes = NDArray[np.uint8]


class Memory:
    """`size` bytes, all zero."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.data = np.zeros(size, np.uint8)
        self._blocks: list[tuple[int, int]] = []

    def allocate(self, nbytes: int) -> int:
        """The address of a fresh block of zeros; DeviceError when there is no room."""
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
        for block in self._blocks:
            if block[0] == address:
                self._blocks.remove(block)
                return
        raise DeviceError(f"device {self.name}: address to free must be that of a block, got {address}")

    def window(self, address: int, nbytes: int) -> Bytes:
        """The bytes from an address on, as a view; DeviceError unless one block holds them all."""
        index = bisect_right(self._blocks, (address, len(self.data) + 1)) - 1
        start, size = self._blocks[index] if index >= 0 else (0, 0)
        if nbytes < 0 or address < start or address + nbytes > start + size:
            raise DeviceError(
                f"device {self.name}: access must lie in one allocated block, got {nbytes} bytes at {address}"
            )
        return self.data[address : address + nbytes]
