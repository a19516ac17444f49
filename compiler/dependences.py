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

    def __init__(self, size: int, readers: set[Unit], writers: set[Unit]) -> None:
        self.reads = {unit: np.full(size, NEVER, np.int32) for unit in readers}
        self.writes = {unit: np.full(size, NEVER, np.int32) for unit in writers}

    def conflicts(self, unit: Unit, touch: Touch) -> Iterator[tuple[Unit, int]]:
        """The latest conflicting step of each other unit."""
        for past in (self.writes, self.reads) if touch.writes else (self.writes,):
            for other, last in past.items():
                if other != unit:
                    yield other, int(last[touch.where].max(initial=NEVER))

    def record(self, unit: Unit, touch: Touch, step: int) -> None:
        (self.writes if touch.writes else self.reads)[unit][touch.where] = step


def _end(where: Where) -> int:
    if isinstance(where, slice):
        return int(where.stop)
    return int(where.max(initial=NEVER)) + 1


def _histories(steps: Sequence[Step]) -> dict[Hashable, _History]:
    """A history for every space that one unit writes and another touches; no other space orders units."""
    size: dict[Hashable, int] = {}
    users: dict[Hashable, tuple[set[Unit], set[Unit]]] = {}
    for step in steps:
        for touch in step.touches:
            size[touch.space] = max(size.get(touch.space, 0), _end(touch.where))
            users.setdefault(touch.space, (set(), set()))[touch.writes].add(step.unit)
    return {
        space: _History(size[space], readers, writers)
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
        ordered = [(histories[touch.space], touch) for touch in step.touches if touch.space in histories]
        for history, touch in ordered:
            for other, last in history.conflicts(step.unit, touch):
                needs[index, other] = max(needs[index, other], last)
        for history, touch in ordered:
            history.record(step.unit, touch, index)
    return needs
