# SPDX-License-Identifier: Apache-2.0
"""The addresses that a machine reaches, for whole arrays of ranges at a time.

The invariant: all windows lie in one array with one distance between addresses and places, so an
address below or beyond every window is nowhere in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdla.boards.virtual.fabric import FabricError, MemoryWindow
from vdla.support.arrays import Bools, Ints


class PageMap:
    """The windows of a memory; those that touch count as one."""

    def __init__(self, windows: Sequence[MemoryWindow]) -> None:
        shifts = {window.address - window.offset for window in windows}
        if len(shifts) > 1:
            raise FabricError(f"fabric: windows must have one shift from addresses to places, got {sorted(shifts)}")
        self.shift = shifts.pop() if shifts else 0
        begins: list[int] = []
        ends: list[int] = []
        for window in sorted(windows, key=lambda window: window.address):
            if ends and window.address == ends[-1]:
                ends[-1] += window.nbytes
            else:
                begins.append(window.address)
                ends.append(window.address + window.nbytes)
        self._begins, self._ends = np.array(begins, np.int64), np.array(ends, np.int64)

    def holds(self, begins: Ints, ends: Ints) -> Bools:
        """Which of the ranges lie in windows."""
        if not len(self._begins):
            return np.zeros(len(begins), np.bool_)
        positions = np.searchsorted(self._begins, begins, side="right") - 1
        inside = ends <= self._ends[np.maximum(positions, 0)]
        return np.asarray((positions >= 0) & inside, np.bool_)

    def reach(self, address: int) -> int:
        """The bytes from an address on that lie in windows."""
        position = int(np.searchsorted(self._begins, address, side="right")) - 1
        return max(0, int(self._ends[position]) - address) if position >= 0 else 0
