"""Exact dependences between units, from the entries that each operation reads and writes.

The operations of a unit run in order, so only the last conflicting operation of each other unit
matters. A space is cut into parts that its operations touch as a whole; the last reader and writer
of a part before each touch is a running maximum over its touches in program order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.touches import SpaceTouches, UnitOp, by_space
from vdla.hardware.isa import Partition, Unit, partition

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NEVER = -1
_MOST_PAIRS = 1 << 21
"""Pairs of a touch and a part that are in memory at once, but for those of a single touch."""


def dependences(ops: Sequence[UnitOp]) -> Ints:
    """`needs` of operations that are given one by one."""
    return needs(np.array([op.unit for op in ops], np.int64), by_space(ops))


def needs(units: Ints, spaces: Iterable[SpaceTouches]) -> Ints:
    """[op, unit]: the last operation of `unit` that must end before `op` starts, or NEVER.

    `units` has the unit of each operation. NEVER for the operation's own unit, whose order needs no
    token.
    """
    found = np.full((len(units), len(Unit)), NEVER, np.int64)
    for space in spaces:
        if space.writes.any() and len(np.unique(units[space.op])) > 1:
            _History(units, partition(space.places)).run(space, found)
    return found


class _History:
    """The last operation of each unit that read, and that wrote, each part of one space."""

    def __init__(self, units: Ints, parts: Partition) -> None:
        self.units = units
        self.parts = parts
        self.last = np.full((2, len(Unit), parts.count), NEVER, np.int64)  # reads, then writes

    def run(self, space: SpaceTouches, found: Ints) -> None:
        """Add the dependences of all touches to `found`."""
        sizes = np.diff(self.parts.starts)[space.place]
        for chunk in _chunks(np.cumsum(sizes)):
            touch, part, first = self.parts.histories(space.place[chunk])
            self._scan(space.op[chunk][touch], part, first, space.writes[chunk][touch], found)

    def _scan(self, op: Ints, part: Ints, first: Ints, writes: Bools, found: Ints) -> None:
        """Touches sorted by part, each part's in program order; `first` is that of each part."""
        unit, place = self.units[op], np.arange(len(op))
        for wrote in (False, True):
            for other in Unit:
                chosen = (writes == wrote) & (unit == other)
                before = self.last[int(wrote), other]
                if not chosen.any() and (before == NEVER).all():
                    continue
                at = np.maximum.accumulate(np.where(chosen, place, NEVER))
                source = np.where(at >= first, op[at], before[part])
                ordered = (unit != other) & (source != NEVER)
                if not wrote:
                    ordered &= writes
                np.maximum.at(found[:, other], op[ordered], source[ordered])
                before[part[chosen]] = op[chosen]  # the last of a part is assigned last


def _chunks(ends: Ints) -> Iterator[slice]:
    """Ranges of touches with at most _MOST_PAIRS pairs each; `ends` counts pairs up to each."""
    start, done = 0, 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, done + _MOST_PAIRS, side="right")))
        yield slice(start, stop)
        start, done = stop, int(ends[stop - 1])
