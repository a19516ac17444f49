"""Static memory planning: a place in one arena for every value, so that live values never overlap.

First fit, largest first: the lowest place that is free during the live range of a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ValueLife:
    """A value of `nbytes`, live from step `first` to step `last`, both included."""

    name: str
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets in bytes by name; the size of the arena, and the size of all values without reuse."""

    offsets: Mapping[str, int]
    arena_bytes: int
    bytes_without_reuse: int

    @property
    def peak_share(self) -> float:
        """The arena over the sum of all values."""
        return self.arena_bytes / self.bytes_without_reuse if self.bytes_without_reuse else 1.0


def plan_memory(values: Iterable[ValueLife], alignment: int) -> MemoryPlan:
    """Places for values, at multiples of `alignment` bytes."""
    placed: list[tuple[int, int, ValueLife]] = []
    total = 0
    for value in sorted(values, key=lambda v: (-v.nbytes, v.first, v.name)):
        size = -(-value.nbytes // alignment) * alignment
        total += size
        start = 0
        for low, high, other in sorted(placed, key=lambda p: p[:2]):
            if other.last < value.first or value.last < other.first:
                continue
            if start + size <= low:
                break
            start = max(start, high)
        placed.append((start, start + size, value))
    return MemoryPlan(
        offsets={value.name: start for start, _, value in placed},
        arena_bytes=max((high for _, high, _ in placed), default=0),
        bytes_without_reuse=total,
    )
