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

from vdla.compiler.codegen.vdla.dependences import NEVER, dependences
from vdla.compiler.codegen.vdla.touches import UnitOp
from vdla.hardware.config import MIN_TOKEN_DEPTH
from vdla.hardware.isa import Unit, units

Ints = NDArray[np.int64]
Clock = tuple[int, ...]
Queue = tuple[Unit, Unit]
Edge = tuple[int, int]
_Needs = dict[Unit, int]

QUEUES: tuple[Queue, ...] = tuple((queue.producer, queue.consumer) for queue in units.QUEUES)
ORIGIN: Clock = (NEVER,) * len(Unit)
SYNC = -1
"""The operation of an inserted SYNC."""
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


@dataclass(frozen=True, slots=True, eq=False)
class IssuedOps:
    """The instructions of the final order in columns.

    `op` has the operation of each, or SYNC; bit `u` of `pops` and `pushes` is a token from or to
    unit `u`.
    """

    op: Ints
    unit: Ints
    pops: Ints
    pushes: Ints


def assign_tokens(ops: Sequence[UnitOp], depth: int = MIN_TOKEN_DEPTH) -> tuple[IssuedOp, ...]:
    """`issue` for operations that are given one by one."""
    issued = issue(np.array([op.unit for op in ops], np.int64), dependences(ops), depth)
    columns = (issued.op.tolist(), issued.unit.tolist(), issued.pops.tolist(), issued.pushes.tolist())
    return tuple(
        IssuedOp(None if op == SYNC else op, Unit(unit), _units(pops), _units(pushes))
        for op, unit, pops, pushes in zip(*columns, strict=True)
    )


def _units(bits: int) -> frozenset[Unit]:
    return frozenset(unit for unit in Unit if bits >> unit & 1)


def issue(unit: Ints, needs: Ints, depth: int = MIN_TOKEN_DEPTH) -> IssuedOps:
    """The operations in order, with tokens for every dependence and SYNCs where needed.

    `unit[i]` and `needs[i]`, as of `dependences`, describe operation `i`. No token is redundant,
    unless a queue would hold more than `depth` tokens in program order: then two adjacent tokens
    are merged into one that is pushed later and popped earlier.
    """
    bounds = np.where(needs == NEVER, NEVER, 2 * needs + 1)
    rows = list(zip(unit.tolist(), *bounds.T.tolist(), strict=True))
    merged: dict[int, _Needs] = {}
    while True:
        walk = _Walk(merged)
        walk.run(rows)
        crowded = [merge for queue in QUEUES for merge in _crowded(queue, walk.edges[queue], depth)]
        if not crowded:
            return walk.issued()
        for key, source_unit, source in crowded:
            wanted = merged.setdefault(key, {})
            wanted[source_unit] = max(wanted.get(source_unit, NEVER), source)


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
        self.keys: list[list[int]] = [[] for _ in Unit]
        self.clocks: list[list[Clock]] = [[] for _ in Unit]
        self.clock = [ORIGIN for _ in Unit]  # of each unit's last instruction
        self.edges: dict[Queue, list[Edge]] = {queue: [] for queue in QUEUES}

    def run(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        """Issue operations of (unit, and the key of the last needed operation of each unit)."""
        keys, clocks, clock, merged = self.keys, self.clocks, self.clock, self.merged
        for op, (unit, load, compute, store) in enumerate(rows):
            key, known = 2 * op + 1, clock[unit]
            if load <= known[0] and compute <= known[1] and store <= known[2] and key not in merged:
                keys[unit].append(key)
                clocks[unit].append(known)
                continue
            bounds = (load, compute, store)
            need = {other: bounds[other] for other in Unit if bounds[other] != NEVER}
            if unit == Unit.COMPUTE:
                self._compute(key, need)
            else:
                self._outer(key, Unit(unit), need)

    def _uncovered(self, key: int, unit: Unit, need: _Needs) -> _Needs:
        """The sources that the unit's clock does not cover, as indices into their unit's order."""
        clock, merged = self.clock[unit], self.merged.get(key)
        if merged:
            need = {other: max(need.get(other, NEVER), merged.get(other, NEVER)) for other in (*need, *merged)}
        places = {other: bisect_right(self.keys[other], bound) - 1 for other, bound in need.items()}
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
        if self.clock[Unit.COMPUTE][far] < target:
            self._compute(key, {far: target})
        return bisect_left(clocks, target, key=lambda clock: clock[far])

    def _issue(self, key: int, unit: Unit, sources: _Needs) -> None:
        clock = list(self.clock[unit])
        for other, at in sources.items():
            source = self.keys[other][at]
            clock = list(map(max, clock, self.clocks[other][at]))
            clock[other] = source
            self.edges[other, unit].append((source, key))
        self.keys[unit].append(key)
        self.clock[unit] = tuple(clock)
        self.clocks[unit].append(self.clock[unit])

    def issued(self) -> IssuedOps:
        """All instructions in program order with their tokens."""
        key = np.concatenate([np.array(keys, np.int64) for keys in self.keys])
        unit = np.repeat(np.arange(len(Unit)), [len(keys) for keys in self.keys])
        order = np.argsort(key)
        key, unit = key[order], unit[order]
        pops, pushes = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
        for (source, target), edges in self.edges.items():
            ends = np.searchsorted(key, np.array(edges, np.int64).reshape(-1, 2))
            pushes[ends[:, 0]] |= 1 << target
            pops[ends[:, 1]] |= 1 << source
        return IssuedOps(np.where(key % 2, key // 2, SYNC), unit, pops, pushes)
