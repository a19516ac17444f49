"""Exact dependences between the units: which instruction must wait for which, from the entries they touch.

Instructions of one unit run in order, so for each pair of a consumer and another unit only the latest instruction that
conflicts counts. No loop runs over entries: each touch is one gather and one scatter on the space's history.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import Unit

Where = slice | NDArray[np.int64]
NEVER = -1
MOST_ROWS = 1 << 22
"""Entries of a space up to which its history has a row for each; beyond, one for each that is touched."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Entries of one space (an on-chip buffer, a tensor in DRAM) that a step reads or writes."""

    space: Hashable
    where: Where
    writes: bool


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction as dependences see it."""

    unit: Unit
    touches: tuple[Touch, ...] = ()


class _History:
    """When each unit last read and last wrote each entry of one space."""

    def __init__(self, places: Sequence[Where], readers: set[Unit], writers: set[Unit]) -> None:
        size = max(_end(place) for place in places)
        self.members: NDArray[np.int64] | None = None  # the entries that the rows stand for, where not all
        if size > MOST_ROWS:
            self.members = np.unique(np.concatenate([_indices(place) for place in places]))
            size = len(self.members)
        self.reads = {unit: np.full(size, NEVER, np.int32) for unit in readers}
        self.writes = {unit: np.full(size, NEVER, np.int32) for unit in writers}

    def rows(self, where: Where) -> Where:
        """The rows of these entries."""
        return where if self.members is None else np.searchsorted(self.members, _indices(where))

    def conflicts(self, unit: Unit, touch: Touch, rows: Where) -> Iterator[tuple[Unit, int]]:
        """The latest conflicting step of each other unit."""
        for past in (self.writes, self.reads) if touch.writes else (self.writes,):
            for other, last in past.items():
                if other != unit:
                    yield other, int(last[rows].max(initial=NEVER))

    def record(self, unit: Unit, touch: Touch, rows: Where, step: int) -> None:
        (self.writes if touch.writes else self.reads)[unit][rows] = step


def _end(where: Where) -> int:
    if isinstance(where, slice):
        return int(where.stop)
    return int(where.max(initial=NEVER)) + 1


def _indices(where: Where) -> NDArray[np.int64]:
    return np.arange(where.start, where.stop) if isinstance(where, slice) else where


def _histories(steps: Sequence[Step]) -> dict[Hashable, _History]:
    """A history for every space that one unit writes and another touches; no other space orders units."""
    places: dict[Hashable, list[Where]] = {}
    users: dict[Hashable, tuple[set[Unit], set[Unit]]] = {}
    for step in steps:
        for touch in step.touches:
            places.setdefault(touch.space, []).append(touch.where)
            users.setdefault(touch.space, (set(), set()))[touch.writes].add(step.unit)
    return {
        space: _History(places[space], readers, writers)
        for space, (readers, writers) in users.items()
        if writers and len(readers | writers) > 1
    }


def dependences(steps: Sequence[Step]) -> NDArray[np.int64]:
    """[step, unit]: the last step of `unit` that must have ended before `step` starts, NEVER where there is none.

    A step's own unit is NEVER: its order needs no token.
    """
    histories = _histories(steps)
    needs = np.full((len(steps), len(Unit)), NEVER, np.int64)
    for index, step in enumerate(steps):
        ordered = [(h, touch, h.rows(touch.where)) for touch in step.touches if (h := histories.get(touch.space))]
        for history, touch, rows in ordered:
            for other, last in history.conflicts(step.unit, touch, rows):
                needs[index, other] = max(needs[index, other], last)
        for history, touch, rows in ordered:
            history.record(step.unit, touch, rows, index)
    return needs
