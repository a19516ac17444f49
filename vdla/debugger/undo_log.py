# SPDX-License-Identifier: Apache-2.0
"""What instructions have overwritten, so that they can be undone, the last one first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from vdla.support.arrays import Array

_RECORD_BYTES = 512
"""Of a record, besides its copies: so many that do not copy anything are bounded too."""

_Record = list[tuple[Array, Array]]  # views, and copies of what they had


class UndoLog:
    """The last instructions that together have overwritten at most `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._records: deque[_Record] = deque()
        self._most_bytes, self._nbytes = most_bytes, 0

    def __len__(self) -> int:
        """How many instructions can be undone."""
        return len(self._records)

    def add(self, views: Iterable[Array]) -> None:
        """Copy what the next instruction may overwrite; the oldest records make room."""
        record = [(view, view.copy()) for view in views]
        self._records.append(record)
        self._nbytes += _bytes(record)
        while self._nbytes > self._most_bytes:
            self._nbytes -= _bytes(self._records.popleft())

    def undo(self) -> None:
        """Write back what the last instruction has overwritten."""
        record = self._records.pop()
        self._nbytes -= _bytes(record)
        for view, copy in record:
            view[...] = copy

    def clear(self) -> None:
        """Forget all instructions."""
        self._records.clear()
        self._nbytes = 0


def _bytes(record: _Record) -> int:
    return _RECORD_BYTES + sum(copy.nbytes for _, copy in record)
