"""The space of an on-chip buffer while a program is ordered: which entries are free, from when."""

from __future__ import annotations

from collections.abc import Iterator

NEVER = 1 << 60
"""The time of what is not known yet."""


class BufferSpace:
    """Segments (start, end, time) of a buffer of `depth` entries, each free from its time on.

    The time is NEVER while a tile is in use.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._segments: list[tuple[int, int, int]] = [(0, depth, 0)]
        self._known: dict[tuple[int, int, int], tuple[int, int]] = {}

    def find(self, entries: int, align: int, reserve: int = 0) -> tuple[int, int]:
        """(time, start) of the place for so many entries that is free first; NEVER if none is.

        Starts are multiples of `align`; the last `reserve` entries are left to others.
        """
        key = entries, align, reserve
        if key not in self._known:
            self._known[key] = min(self._places(*key), default=(NEVER, 0))
        return self._known[key]

    def _places(self, entries: int, align: int, reserve: int) -> Iterator[tuple[int, int]]:
        for low, high, _ in self._segments:
            for start in (-(-low // align) * align, (high - entries) // align * align):
                if 0 <= start <= self.depth - reserve - entries:
                    yield self._free_from(start, start + entries), start

    def _free_from(self, start: int, end: int) -> int:
        return max(time for low, high, time in self._segments if low < end and start < high)

    def set(self, start: int, entries: int, time: int) -> None:
        """Mark entries as free from `time` on."""
        end = start + entries
        kept = [(low, min(high, start), known) for low, high, known in self._segments if low < start]
        kept.append((start, end, time))
        self._segments = kept + [(max(low, end), high, known) for low, high, known in self._segments if high > end]
        self._known.clear()
