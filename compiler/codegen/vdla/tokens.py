# SPDX-License-Identifier: Apache-2.0
"""Token insertion: a minimal set of tokens that enforces the exact dependences.

Every token points forwards in program order, so the program cannot deadlock. A dependence that
other tokens enforce needs none. Positions in program order are keys: operation i has key 2i + 1,
which leaves 2i for a SYNC inserted before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.dependences import NEVER, UnitOp, dependences
from vdla.hardware.config import MIN_TOKEN_DEPTH
from vdla.hardware.isa import Unit, units

Ints = NDArray[np.int64]
Queue = tuple[Unit, Unit]
Edge = tuple[int, int]

QUEUES: tuple[Queue, ...] = tuple((queue.producer, queue.consumer) for queue in units.QUEUES)
SYNC = -1
"""The operation of an inserted SYNC."""


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
    return _issue(*(np.ascontiguousarray(column, np.int64).tobytes() for column in (unit, needs)), depth)


@lru_cache(maxsize=32)
def _issue(unit_content: bytes, needs_content: bytes, depth: int) -> IssuedOps:
    """`issue`, once for equal ones: networks repeat blocks that differ in numbers only."""
    unit, needs = np.frombuffer(unit_content, np.int64), np.frombuffer(needs_content, np.int64).reshape(-1, len(Unit))
    bounds = np.where(needs == NEVER, NEVER, 2 * needs + 1)
    relays = _needs_relays(unit, bounds)
    merged: dict[int, dict[int, int]] = {}
    while True:
        edges, syncs = walk_tokens(unit, bounds, merged) if relays else _direct_tokens(unit, bounds, merged)
        crowded = [(queue, merge) for queue in QUEUES for merge in _crowded(edges[queue], depth)]
        if not crowded:
            return _issued(unit, syncs, edges)
        for (producer, _), (source, key) in crowded:
            wanted = merged.setdefault(key, {})
            wanted[producer] = max(wanted.get(producer, NEVER), source)


def _needs_relays(unit: Ints, bounds: Ints) -> bool:
    """Whether a LOAD needs a STORE or the reverse: these share no queue."""
    load, store = unit == Unit.LOAD, unit == Unit.STORE
    return bool((bounds[load, Unit.STORE] > NEVER).any() or (bounds[store, Unit.LOAD] > NEVER).any())


def _direct_tokens(unit: Ints, bounds: Ints, merged: Merged) -> tuple[Edges, Ints]:
    """The tokens where no relays are needed; no SYNCs.

    A unit then learns of the end of another unit's operation by a token from it only, so that a
    need is covered if an earlier operation needed the same or a later one.
    """
    if merged:
        bounds = bounds.copy()
        for key, sources in merged.items():
            for producer, source in sources.items():
                bounds[key // 2, producer] = max(bounds[key // 2, producer], source)
    result: Edges = {}
    for producer, consumer in QUEUES:
        ops = np.flatnonzero(unit == consumer)
        source = bounds[ops, producer]
        late = is_later(source)
        result[producer, consumer] = np.stack([source[late], 2 * ops[late] + 1], axis=1)
    return result, np.zeros(0, np.int64)


def _crowded(edges: Ints, depth: int) -> Iterator[Edge]:
    """The merged tokens that keep those in flight within `depth`."""
    late = np.flatnonzero(edges[depth:, 0] <= edges[:-depth, 1])
    if not len(late):
        return
    k, pending = int(late[0]), [(source, key) for source, key in edges.tolist()]
    while k + depth < len(pending):
        if pending[k + depth][0] > pending[k][1]:
            k += 1
            continue
        slack = [pending[j][1] - pending[j + 1][0] for j in range(k, k + depth)]
        j = k + max(range(depth), key=slack.__getitem__)  # the pair whose merged token delays least
        pending[j : j + 2] = [(pending[j + 1][0], pending[j][1])]
        yield pending[j]


def _issued(unit: Ints, syncs: Ints, edges: Edges) -> IssuedOps:
    """All instructions in program order with their tokens."""
    key = np.insert(2 * np.arange(len(unit)) + 1, syncs // 2, syncs)
    unit = np.insert(unit, syncs // 2, Unit.COMPUTE)
    pops, pushes = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
    for (producer, consumer), ends in edges.items():
        at = np.searchsorted(key, ends) if len(syncs) else ends // 2
        pushes[at[:, 0]] |= 1 << consumer
        pops[at[:, 1]] |= 1 << producer
    return IssuedOps(np.where(key % 2, key // 2, SYNC), unit, pops, pushes)


# --- walks over operations that need relays -------------------------------------------------------

Clock = tuple[int, ...]
Edges = dict[tuple[int, int], Ints]
"""By producer and consumer: the keys of the two ends of each token, int64[n, 2] in order."""
Merged = Mapping[int, Mapping[int, int]]
"""By the key of an instruction and the unit of its source: the source of a merged token."""

_ORIGIN: Clock = (NEVER,) * len(Unit)
_LOAD, _COMPUTE, _STORE = map(int, Unit)


def walk_tokens(unit: Ints, bounds: Ints, merged: Merged) -> tuple[Edges, Ints]:
    """The tokens, and the keys of the SYNCs.

    `bounds[i, u]` is the key of the last operation of unit `u` that operation `i` needs, or NEVER.
    """
    chosen = _may_wait(unit, bounds)
    chosen[[key // 2 for key in merged if key % 2]] = True
    ops = np.flatnonzero(chosen)
    walk = _Walk(merged, (2 * np.flatnonzero(unit == Unit.COMPUTE) + 1).tolist())
    walk.run(zip((2 * ops + 1).tolist(), unit[ops].tolist(), bounds[ops].tolist(), strict=True))
    edges = {queue: np.array(pairs, np.int64).reshape(-1, 2) for queue, pairs in walk.edges.items()}
    return edges, np.array(walk.syncs, np.int64)


def _may_wait(unit: Ints, bounds: Ints) -> NDArray[np.bool_]:
    """Which operations need a later source than all earlier operations of their unit.

    The others find their sources covered by what their unit has waited for.
    """
    result = np.zeros(len(unit), np.bool_)
    for receiver in Unit:
        ops = np.flatnonzero(unit == receiver)
        result[ops] = is_later(bounds[ops]).any(axis=1)
    return result


def is_later(bounds: Ints) -> NDArray[np.bool_]:
    """Which elements are above all before them in their column, and above NEVER."""
    known = np.full((len(bounds) + 1, *bounds.shape[1:]), NEVER, np.int64)
    np.maximum.accumulate(bounds, axis=0, out=known[1:])
    return np.asarray(bounds > known[:-1], np.bool_)


class _Walk:
    """One walk in program order over the operations that may wait.

    `changed[u]` and `clocks[u]` are the keys at which the clock of unit `u` changes, and its values
    from there on; both increase. Elements of a clock are in the order of the units.
    """

    def __init__(self, merged: Merged, compute_keys: Sequence[int]) -> None:
        self.merged = merged
        self.compute_keys = compute_keys
        self.syncs: list[int] = []
        self.changed: list[list[int]] = [[NEVER] for _ in Unit]
        self.clocks: list[list[Clock]] = [[_ORIGIN] for _ in Unit]
        self.edges: dict[tuple[int, int], list[tuple[int, int]]] = {
            (queue.producer, queue.consumer): [] for queue in units.QUEUES
        }

    def run(self, rows: Iterable[tuple[int, int, Sequence[int]]]) -> None:
        """Issue operations of (key, unit, key of the last needed operation of each unit)."""
        merged, clocks = self.merged, self.clocks
        for key, unit, bounds in rows:
            load, compute, store = self._with_merged(key, bounds) if key in merged else bounds
            known = clocks[unit][-1]
            if unit == _COMPUTE:
                self._compute(key, load, store)
            elif unit == _LOAD and (compute > known[_COMPUTE] or store > known[_STORE]):
                self._outer(key, _LOAD, compute, _STORE, store)
            elif unit == _STORE and (compute > known[_COMPUTE] or load > known[_LOAD]):
                self._outer(key, _STORE, compute, _LOAD, load)

    def _with_merged(self, key: int, bounds: Sequence[int]) -> list[int]:
        """The bounds with those of the tokens that were merged into one popped at `key`."""
        result = list(bounds)
        for other, bound in self.merged[key].items():
            result[other] = max(result[other], self._last_compute(bound) if other == Unit.COMPUTE else bound)
        return result

    def _last_compute(self, bound: int) -> int:
        """The last instruction of compute up to a key: a SYNC of an earlier walk may be gone."""
        places = ((keys, bisect_right(keys, bound) - 1) for keys in (self.compute_keys, self.syncs))
        return max((keys[place] for keys, place in places if place >= 0), default=NEVER)

    def _compute(self, key: int, load: int, store: int) -> None:
        """Tokens from load and store, which synchronise only through compute."""
        known = self.clocks[_COMPUTE][-1]
        from_load, from_store = load > known[_LOAD], store > known[_STORE]
        if from_load:
            self._wait(key, _COMPUTE, _LOAD, load)
        if from_store:
            self._wait(key, _COMPUTE, _STORE, store)

    def _outer(self, key: int, unit: int, compute: int, far: int, source: int) -> None:
        """A token from compute; load and store share no queue and synchronise through compute."""
        known = self.clocks[unit][-1]
        wanted = compute if compute > known[_COMPUTE] else NEVER
        if source > known[far]:
            wanted = max(wanted, self._relay(key - 1, far, source))
        if wanted != NEVER:
            self._wait(key, unit, _COMPUTE, wanted)

    def _relay(self, key: int, far: int, source: int) -> int:
        """The first instruction of compute after the end of `far`'s, if need be a SYNC at `key`."""
        if self.clocks[_COMPUTE][-1][far] < source:
            self.syncs.append(key)
            bounds = [NEVER] * len(Unit)
            bounds[far] = source
            load, _, store = self._with_merged(key, bounds) if key in self.merged else bounds
            self._compute(key, load, store)
        at = bisect_left(self.clocks[_COMPUTE], source, key=lambda clock: clock[far])
        return self.changed[_COMPUTE][at]

    def _wait(self, key: int, unit: int, other: int, source: int) -> None:
        """A token from the instruction of `other` with the key `source`."""
        changed, clocks = self.changed[unit], self.clocks[unit]
        load, compute, store = self.clocks[other][bisect_right(self.changed[other], source) - 1]
        known = clocks[-1]
        clock = [
            load if load > known[_LOAD] else known[_LOAD],
            compute if compute > known[_COMPUTE] else known[_COMPUTE],
            store if store > known[_STORE] else known[_STORE],
        ]
        clock[other] = source
        self.edges[other, unit].append((source, key))
        if changed[-1] == key:  # a second token of the same instruction
            clocks[-1] = (clock[_LOAD], clock[_COMPUTE], clock[_STORE])
        else:
            changed.append(key)
            clocks.append((clock[_LOAD], clock[_COMPUTE], clock[_STORE]))
