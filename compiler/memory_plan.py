# SPDX-License-Identifier: Apache-2.0
"""Static memory planning: a place in one arena for every value, so that live values never overlap.

First fit in several orders, of which the smallest arena wins: the lowest place that is free during
the live range of a value.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from vdla.support.errors import Error


class MemoryPlanError(Error, ValueError):
    """A value that has no place in any plan."""


@dataclass(frozen=True, slots=True)
class ValueLife:
    """A value of `nbytes`, None if unknown, live from step `first` to `last`, both included."""

    name: str
    nbytes: int | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets in bytes by name; the size of the arena, and the size of all values without reuse.

    `live_bytes` is the largest sum of values that are live at one step: no plan needs less.
    """

    offsets: Mapping[str, int]
    arena_bytes: int
    bytes_without_reuse: int
    live_bytes: int

    @property
    def peak_share(self) -> float:
        """The arena over the sum of all values."""
        return self.arena_bytes / self.bytes_without_reuse if self.bytes_without_reuse else 1.0


def plan_memory(values: Iterable[ValueLife], alignment: int) -> MemoryPlan:
    """Places for values, at multiples of `alignment` bytes.

    Raises:
        MemoryPlanError: a value whose size is not known.
    """
    lives = [(-(-_known_bytes(value) // alignment) * alignment, value) for value in values]
    bound = _live_bytes(lives)
    best: dict[str, int] | None = None
    arena = 0
    for order in _ORDERS:
        offsets, end = _first_fit(sorted(lives, key=order))
        if best is None or end < arena:
            best, arena = offsets, end
        if arena == bound:
            break
    return MemoryPlan(best or {}, arena, sum(size for size, _ in lives), bound)


def _known_bytes(value: ValueLife) -> int:
    if value.nbytes is None:
        raise MemoryPlanError(f"memory plan: {value.name} must have a known size to get a place, got extents that vary")
    return value.nbytes


_Sized = tuple[int, ValueLife]  # bytes, a multiple of the alignment


def _by_size(sized: _Sized) -> tuple[object, ...]:
    size, value = sized
    return -size, value.first, value.name


def _by_area(sized: _Sized) -> tuple[object, ...]:
    """The bytes times the steps that they are held."""
    size, value = sized
    return -size * (value.last - value.first + 1), value.first, value.name


def _by_length(sized: _Sized) -> tuple[object, ...]:
    size, value = sized
    return value.first - value.last, -size, value.first, value.name


def _by_first_use(sized: _Sized) -> tuple[object, ...]:
    size, value = sized
    return value.first, -size, value.name


_ORDERS: tuple[Callable[[_Sized], tuple[object, ...]], ...] = (_by_size, _by_area, _by_length, _by_first_use)


def _first_fit(lives: Sequence[_Sized]) -> tuple[dict[str, int], int]:
    """The offset of every value, and the end of the last."""
    placed: list[tuple[int, int, int, int]] = []  # start, end, first and last step, by start
    offsets: dict[str, int] = {}
    for size, value in lives:
        start = 0
        for low, high, first, last in placed:
            if last < value.first or value.last < first:
                continue
            if start + size <= low:
                break
            start = max(start, high)
        insort(placed, (start, start + size, value.first, value.last))
        offsets[value.name] = start
    return offsets, max((end for _, end, _, _ in placed), default=0)


def _live_bytes(lives: Sequence[_Sized]) -> int:
    """The largest sum of sizes that are live at one step."""
    changes: dict[int, int] = {}
    for size, value in lives:
        changes[value.first] = changes.get(value.first, 0) + size
        changes[value.last + 1] = changes.get(value.last + 1, 0) - size
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)
