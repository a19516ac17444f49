"""Token insertion: a minimal set of tokens that enforces the exact dependences.

Every token points forwards in program order, so the program cannot deadlock. An instruction's
vector clock holds, for each unit, the last instruction known to have ended when it starts; a
dependence that the clock covers needs no token. Positions in program order are keys: operation i
has key 2i + 1, which leaves 2i for a SYNC inserted before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.dependences import NEVER, UnitOp, dependences
from vdla.hardware.config import MIN_TOKEN_DEPTH
from vdla.hardware.isa import Unit, units

Clock = tuple[int, ...]
Queue = tuple[Unit, Unit]
Edge = tuple[int, int]
_Needs = dict[Unit, int]

QUEUES: tuple[Queue, ...] = tuple((queue.producer, queue.consumer) for queue in units.QUEUES)
ORIGIN: Clock = (NEVER,) * len(Unit)
_FAR = {Unit.LOAD: Unit.STORE, Unit.STORE: Unit.LOAD}


@dataclass(frozen=True, slots=True)
class IssuedOp:
    """One instruction of the final order, with the units of the tokens it pops and pushes.

    `op` is the index of the operation, None for a SYNC of `unit`.
    """

    op: int | None
    unit: Unit
    pops: frozenset[Unit]
    pushes: frozenset[Unit]


def assign_tokens(ops: Sequence[UnitOp], depth: int = MIN_TOKEN_DEPTH) -> tuple[IssuedOp, ...]:
    """The operations in order, with tokens for every dependence and SYNCs where needed.

    No token is redundant, unless a queue would hold more than `depth` tokens in program order: then
    two adjacent tokens are merged into one that is pushed later and popped earlier.
    """
    needs = dependences(ops)
    units = [op.unit for op in ops]
    merged: dict[int, _Needs] = {}
    while True:
        walk = _Walk(merged)
        walk.run(units, needs)
        crowded = [merge for queue in QUEUES for merge in _crowded(queue, walk.edges[queue], depth)]
        if not crowded:
            return walk.issued()
        for key, unit, source in crowded:
            wanted = merged.setdefault(key, {})
            wanted[unit] = max(wanted.get(unit, NEVER), source)


def _crowded(queue: Queue, edges: Sequence[Edge], depth: int) -> Iterator[tuple[int, Unit, int]]:
    """(consumer, unit, source) of the merges that keep the tokens in flight within `depth`."""
    edges = list(edges)
    k = 0
    while k + depth < len(edges):
        if edges[k + depth][0] > edges[k][1]:
            k += 1
            continue
        slack = [edges[j][1] - edges[j + 1][0] for j in range(k, k + depth)]
        j = k + max(range(depth), key=slack.__getitem__)  # the pair whose merged token delays least
        edges[j : j + 2] = [(edges[j + 1][0], edges[j][1])]
        yield edges[j][1], queue[0], edges[j][0]


class _Walk:
    """One walk in program order; the keys and clocks of each unit's instructions increase."""

    def __init__(self, merged: Mapping[int, _Needs]) -> None:
        self.merged = merged
        self.keys: dict[Unit, list[int]] = {unit: [] for unit in Unit}
        self.clocks: dict[Unit, list[Clock]] = {unit: [] for unit in Unit}
        self.edges: dict[Queue, list[Edge]] = {queue: [] for queue in QUEUES}

    def run(self, units: Sequence[Unit], needs: NDArray[np.int64]) -> None:
        rows: list[list[int]] = needs.tolist()
        for op, (unit, row) in enumerate(zip(units, rows, strict=True)):
            need = {other: 2 * row[other] + 1 for other in Unit if row[other] != NEVER}
            if unit == Unit.COMPUTE:
                self._compute(2 * op + 1, need)
            else:
                self._outer(2 * op + 1, unit, need)

    def _clock(self, unit: Unit) -> Clock:
        return self.clocks[unit][-1] if self.clocks[unit] else ORIGIN

    def _uncovered(self, key: int, unit: Unit, need: _Needs) -> _Needs:
        """The sources that the unit's clock does not cover, as indices into their unit's order."""
        clock, merged = self._clock(unit), self.merged.get(key, {})
        latest = {other: max(need.get(other, NEVER), merged.get(other, NEVER)) for other in (*need, *merged)}
        places = {other: bisect_right(self.keys[other], bound) - 1 for other, bound in latest.items()}
        return {other: at for other, at in places.items() if at >= 0 and self.keys[other][at] > clock[other]}

    def _compute(self, key: int, need: _Needs) -> None:
        """Tokens from load and store, which synchronise only through compute."""
        self._issue(key, Unit.COMPUTE, self._uncovered(key, Unit.COMPUTE, need))

    def _outer(self, key: int, unit: Unit, need: _Needs) -> None:
        """A token from compute; load and store share no queue and synchronise through compute."""
        wanted = self._uncovered(key, unit, need)
        source = wanted.get(Unit.COMPUTE, NEVER)
        if _FAR[unit] in wanted:
            source = max(source, self._relay(key - 1, _FAR[unit], wanted[_FAR[unit]]))
        self._issue(key, unit, {} if source == NEVER else {Unit.COMPUTE: source})

    def _relay(self, key: int, far: Unit, at: int) -> int:
        """The first instruction of compute after the end of `far`'s, if need be a SYNC at `key`."""
        target = self.keys[far][at]
        clocks = self.clocks[Unit.COMPUTE]
        if self._clock(Unit.COMPUTE)[far] < target:
            self._compute(key, {far: target})
        return bisect_left(clocks, target, key=lambda clock: clock[far])

    def _issue(self, key: int, unit: Unit, sources: _Needs) -> None:
        clock = list(self._clock(unit))
        for other, at in sources.items():
            source = self.keys[other][at]
            clock = [max(pair) for pair in zip(clock, self.clocks[other][at], strict=True)]
            clock[other] = source
            self.edges[other, unit].append((source, key))
        self.keys[unit].append(key)
        self.clocks[unit].append(tuple(clock))

    def issued(self) -> tuple[IssuedOp, ...]:
        """All instructions in program order with their tokens."""
        unit_of = {key: unit for unit in Unit for key in self.keys[unit]}
        pops: dict[int, set[Unit]] = {key: set() for key in unit_of}
        pushes: dict[int, set[Unit]] = {key: set() for key in unit_of}
        for (source, target), edges in self.edges.items():
            for push, pop in edges:
                pushes[push].add(target)
                pops[pop].add(source)
        return tuple(
            IssuedOp(key // 2 if key % 2 else None, unit_of[key], frozenset(pops[key]), frozenset(pushes[key]))
            for key in sorted(unit_of)
        )
