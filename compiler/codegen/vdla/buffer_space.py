"""The space of an on-chip buffer while a program is ordered: which entries are free, from when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

NEVER = 1 << 60
"""The time of what is not known yet."""


class BufferSpace:
    """Segments (start, end, time) of a buffer of `depth` entries, each free from its time on.

    The time is NEVER while a tile is in use.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._segments: list[tuple[int, int, int]] = [(0, depth, 0)]
        self._lows = [0]
        self._known: dict[tuple[int, int, int], tuple[int, int]] = {}

    def find(self, entries: int, align: int, reserve: int = 0) -> tuple[int, int]:
        """(time, start) of the place for so many entries that is free first; NEVER if none is.

        Starts are multiples of `align`; the last `reserve` entries are left to others.
        """
        key = entries, align, reserve
        if key not in self._known:
            self._known[key] = self._best(*key)
        return self._known[key]

    def _best(self, entries: int, align: int, reserve: int) -> tuple[int, int]:
        """The earliest place, among those that begin or end where a segment does."""
        best, last = (NEVER, 0), self.depth - reserve - entries
        for low, high, free in self._segments:
            if free > best[0] or free == NEVER:
                continue
            for start in (-(-low // align) * align, (high - entries) // align * align):
                if 0 <= start <= last:
                    time = self._free_from(start, start + entries, best[0])
                    best = min(best, (time, start)) if time < NEVER else best
        return best

    def _free_from(self, start: int, end: int, limit: int) -> int:
        """The time from which [start, end) is free; NEVER if that is after the limit."""
        time = 0
        for low, _, free in self._segments[bisect_right(self._lows, start) - 1 :]:
            if low >= end:
                break
            if free > limit:
                return NEVER
            time = max(time, free)
        return time

    def set(self, start: int, entries: int, time: int) -> None:
        """Mark entries as free from `time` on."""
        end = start + entries
        first = bisect_right(self._lows, start) - 1
        last = bisect_left(self._lows, end) - 1
        (low, _, before), (_, high, after) = self._segments[first], self._segments[last]
        new = [(start, end, time)]
        if low < start:
            new.insert(0, (low, start, before))
        if end < high:
            new.append((end, high, after))
        self._segments[first : last + 1] = new
        self._lows[first : last + 1] = [low for low, _, _ in new]
        self._known.clear()
