# SPDX-License-Identifier: Apache-2.0
"""Exact dependences between units, from the entries that each operation reads and writes.

The operations of a unit run in order, so only the last conflicting operation of each other unit
matters. A space is cut into parts that operations touch as a whole; the last reader and writer of a
part before each touch is a running maximum over its touches in program order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import Partition, Places, Unit, Where, numbered, partition
from vdla.hardware.isa.index_set import end
from vdla.support.arrays import occurrences

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
    return [value.finish() for value in lists.values()]


Bools = NDArray[np.bool_]
NEVER = -1
_UNITS = tuple(map(int, Unit))
_WINDOW = 2048
"""Touches that share a partition."""
_MOST_ROWS = 1 << 18
"""The size of a space up to which its history has a row for every index; a larger one has a single
window.
"""
_MOST_PAIRS = 1 << 21
"""Pairs of a touch and a part that are in memory at once, except for those of a single touch."""


def dependences(ops: Sequence[UnitOp]) -> Ints:
    """`needs` of operations that are given one by one."""
    return needs(np.array([op.unit for op in ops], np.int64), by_space(ops))


def needs(units: Ints, spaces: Iterable[SpaceTouches]) -> Ints:
    """[op, unit]: the last operation of `unit` that must end before `op` starts, or NEVER.

    `units` has the unit of each operation. NEVER for the operation's own unit, whose order needs no
    token.
    """
    result = np.full((len(units), len(Unit)), NEVER, np.int64)
    for space in spaces:
        if space.writes.any() and (units[space.op] != units[space.op[0]]).any():
            _History(units, space).run(result)
    return result


class _History:
    """The last operation of each unit that read, and that wrote, each index of one space.

    A window of touches has a partition of its own, which is coarser than that of all touches: in a
    long program, the same indices are tiles of many shapes.
    """

    def __init__(self, units: Ints, space: SpaceTouches) -> None:
        self.units = units
        self.space = space
        self.size = _end(space.places)
        self.last = np.full((2, len(Unit), self.size if self.size <= _MOST_ROWS else 0), NEVER, np.int32)

    def run(self, edges: Ints) -> None:
        """Add the dependences of all touches to `edges`."""
        count = len(self.space.op)
        step = _WINDOW if self.size <= _MOST_ROWS else count
        for start in range(0, count, step):
            self._window(slice(start, start + step), edges, start > 0, start + step < count)

    def _window(self, window: slice, edges: Ints, before: bool, after: bool) -> None:
        """Touches that follow each other; others may be before and after them."""
        op, writes, places = self.space.op[window], self.space.writes[window], self.space.places
        used, place = numbered(self.space.place[window])
        parts = partition(Places(places.shapes, places.shape[used], places.distance[used]))
        never = np.full((2, len(Unit), parts.count), NEVER, np.int64)
        last, changed = self._before(parts) if before else never, np.zeros(never.shape, np.bool_)
        for chunk in chunks(np.cumsum(np.diff(parts.starts)[place])):
            touch, part, first = parts.histories(place[chunk])
            self._scan(op[chunk][touch], part, first, writes[chunk][touch], last, changed, edges)
        if after:
            self._keep(parts, last, changed)

    def _before(self, parts: Partition) -> Ints:
        """[wrote, unit, part]: the last operation on each part before the window."""
        result = np.full((2, len(Unit), parts.count), NEVER, np.int64)
        if self.last.size and parts.count:
            for past, now in zip(self.last.reshape(-1, self.size), result.reshape(-1, parts.count), strict=True):
                if (past != NEVER).any():
                    pieces = np.maximum.reduceat(past, parts.cuts[:-1])
                    pieces[-1] = past[parts.cuts[-2] : parts.cuts[-1]].max()
                    np.maximum.at(now, parts.label, pieces)
        return result

    def _keep(self, parts: Partition, last: Ints, changed: Bools) -> None:
        """Note the last operations on the parts that the window touched."""
        if not self.last.size or not parts.count:
            return
        part = np.repeat(parts.label, np.diff(parts.cuts))  # of each index from the first cut to the last
        for wrote in range(2):
            for unit in _UNITS:
                if changed[wrote, unit].any():
                    past = self.last[wrote, unit, parts.cuts[0] : parts.cuts[-1]]
                    past[:] = np.where(changed[wrote, unit, part], last[wrote, unit, part], past)

    def _scan(self, op: Ints, part: Ints, first: Ints, writes: Bools, last: Ints, changed: Bools, edges: Ints) -> None:
        """Touches sorted by part, each part's in program order; `first` is that of each part."""
        unit = self.units[op]
        counts = occurrences(2 * unit + writes, 2 * len(Unit)).tolist()
        for wrote in (False, True):
            for other in _UNITS:
                before = last[int(wrote), other]
                if not counts[2 * other + wrote] and (before == NEVER).all():
                    continue
                matches = (writes == wrote) & (unit == other)
                chosen = np.flatnonzero(matches)
                later = np.flatnonzero(unit != other) if wrote else np.flatnonzero(writes & (unit != other))
                at = np.append(chosen, NEVER)[np.cumsum(matches)[later] - 1]  # the last one before each
                source = np.where(at >= first[later], op[at], before[part[later]])
                known = source != NEVER
                np.maximum.at(edges[:, other], op[later[known]], source[known])
                before[part[chosen]] = op[chosen]  # the last of a part is assigned last
                changed[int(wrote), other, part[chosen]] = True


def _end(places: Places) -> int:
    """One past the largest index of all places."""
    ends = np.array([end(shape) for shape in places.shapes], np.int64)
    return int((ends[places.shape] + places.distance).max(initial=0))


def chunks(ends: Ints) -> Iterator[slice]:
    """Ranges of touches with at most _MOST_PAIRS pairs each; `ends` counts pairs up to each."""
    start, done = 0, 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, done + _MOST_PAIRS, side="right")))
        yield slice(start, stop)
        start, done = stop, int(ends[stop - 1])
