"""Exact dependences between units, from the entries that each operation reads and writes.

The operations of a unit run in order, so only the last conflicting operation of each other unit
matters. There is no loop over entries: each touch is one gather and one scatter on the history of
its space.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import Unit

Where = slice | NDArray[np.int64]
NEVER = -1
_MOST_ROWS = 1 << 22
"""The size of a space up to which its history has a row for every entry; a larger one has rows for
touched entries.
"""


@dataclass(frozen=True, slots=True)
class Touch:
    """Entries of an on-chip buffer or of a tensor in DRAM that an operation reads or writes."""

    space: Hashable
    where: Where
    writes: bool


@dataclass(frozen=True, slots=True)
class UnitOp:
    """An operation: its unit and the entries that it touches."""

    unit: Unit
    touches: tuple[Touch, ...] = ()


class _History:
    """The last operation of each unit that read, and that wrote, each entry of one space."""

    def __init__(self, places: Sequence[Where], readers: set[Unit], writers: set[Unit]) -> None:
        size = max(_end(place) for place in places)
        self.members: NDArray[np.int64] | None = None  # the entry of each row; None if every entry has one
        if size > _MOST_ROWS:
            self.members = np.unique(np.concatenate([_indices(place) for place in places]))
            size = len(self.members)
        self.reads = {unit: np.full(size, NEVER, np.int32) for unit in readers}
        self.writes = {unit: np.full(size, NEVER, np.int32) for unit in writers}

    def rows(self, where: Where) -> Where:
        """The rows of these entries."""
        return where if self.members is None else np.searchsorted(self.members, _indices(where))

    def conflicts(self, unit: Unit, touch: Touch, rows: Where) -> Iterator[tuple[Unit, int]]:
        """The last conflicting operation of each other unit."""
        for past in (self.writes, self.reads) if touch.writes else (self.writes,):
            for other, last in past.items():
                if other != unit:
                    yield other, int(last[rows].max(initial=NEVER))

    def record(self, unit: Unit, touch: Touch, rows: Where, op: int) -> None:
        (self.writes if touch.writes else self.reads)[unit][rows] = op


def _end(where: Where) -> int:
    if isinstance(where, slice):
        return int(where.stop)
    return int(where.max(initial=NEVER)) + 1


def _indices(where: Where) -> NDArray[np.int64]:
    return np.arange(where.start, where.stop) if isinstance(where, slice) else where


def _histories(ops: Sequence[UnitOp]) -> dict[Hashable, _History]:
    """The history of every space that one unit writes and another touches."""
    places: dict[Hashable, list[Where]] = {}
    users: dict[Hashable, tuple[set[Unit], set[Unit]]] = {}
    for op in ops:
        for touch in op.touches:
            places.setdefault(touch.space, []).append(touch.where)
            users.setdefault(touch.space, (set(), set()))[touch.writes].add(op.unit)
    return {
        space: _History(places[space], readers, writers)
        for space, (readers, writers) in users.items()
        if writers and len(readers | writers) > 1
    }


def dependences(ops: Sequence[UnitOp]) -> NDArray[np.int64]:
    """[op, unit]: the last operation of `unit` that must end before `op` starts, or NEVER.

    NEVER for the operation's own unit, whose order needs no token.
    """
    histories = _histories(ops)
    needs = np.full((len(ops), len(Unit)), NEVER, np.int64)
    for index, op in enumerate(ops):
        ordered = [(h, touch, h.rows(touch.where)) for touch in op.touches if (h := histories.get(touch.space))]
        for history, touch, rows in ordered:
            for other, last in history.conflicts(op.unit, touch, rows):
                needs[index, other] = max(needs[index, other], last)
        for history, touch, rows in ordered:
            history.record(op.unit, touch, rows, index)
    return needs
