"""What operations touch, in columns: entries of on-chip buffers, beats of shared tensors.

The touches of a space are rows in program order that share a list of distinct places.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import Places, Unit, Where

Ints = NDArray[np.int64]


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


@dataclass(frozen=True, slots=True)
class SpaceTouches:
    """The touches of one space: operation `op[i]` reads or `writes[i]` `places[place[i]]`.

    `op` is sorted; a place has sorted distinct entries.
    """

    places: Places
    op: Ints
    place: Ints
    writes: NDArray[np.bool_]


class TouchList:
    """Touches of one space, collected in any order."""

    def __init__(self) -> None:
        self._shapes: list[Where] = []
        self._op: list[Ints] = []
        self._shift: list[Ints] = []
        self._writes: list[bool] = []

    def __len__(self) -> int:
        return len(self._op)

    def add(self, op: Ints, shape: Where, distance: Ints, writes: bool) -> None:
        """Operation `op[i]` touches `shape`, shifted by `distance[i]`."""
        self._shapes.append(shape)
        self._op.append(op)
        self._shift.append(distance)
        self._writes.append(writes)

    def finish(self) -> SpaceTouches:
        """All touches in program order."""
        sizes = [len(op) for op in self._op]
        shape = np.repeat(np.arange(len(sizes)), sizes)
        distance, op = np.concatenate(self._shift), np.concatenate(self._op)
        places, place = Places.distinct(self._shapes, shape, distance)
        order = np.argsort(op, kind="stable")
        writes = np.repeat(np.array(self._writes, np.bool_), sizes)
        return SpaceTouches(places, op[order], place[order], writes[order])


def by_space(ops: Sequence[UnitOp]) -> Iterable[SpaceTouches]:
    """The touches of operations that are given one by one."""
    equal: dict[tuple[Hashable, object, bool], tuple[Where, list[int]]] = {}
    for index, op in enumerate(ops):
        for touch in op.touches:
            where = touch.where if isinstance(touch.where, slice) else np.unique(touch.where).astype(np.int64)
            key = (where.start, where.stop) if isinstance(where, slice) else where.tobytes()
            equal.setdefault((touch.space, key, touch.writes), (where, []))[1].append(index)
    lists: dict[Hashable, TouchList] = {}
    for (space, _, writes), (where, users) in equal.items():
        touches = lists.setdefault(space, TouchList())
        touches.add(np.array(users, np.int64), where, np.zeros(len(users), np.int64), writes)
    return [found.finish() for found in lists.values()]
