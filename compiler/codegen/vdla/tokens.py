"""Token insertion: a minimal set of tokens that enforces the exact dependences.

Every token points forwards in program order, so the program cannot deadlock. A dependence that
other tokens enforce needs none. Positions in program order are keys: operation i has key 2i + 1,
which leaves 2i for a SYNC inserted before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.dependences import NEVER, dependences
from vdla.compiler.codegen.vdla.token_walk import Edges, Merged, is_later, walk_tokens
from vdla.compiler.codegen.vdla.touches import UnitOp
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
    found: Edges = {}
    for producer, consumer in QUEUES:
        ops = np.flatnonzero(unit == consumer)
        source = bounds[ops, producer]
        late = is_later(source)
        found[producer, consumer] = np.stack([source[late], 2 * ops[late] + 1], axis=1)
    return found, np.zeros(0, np.int64)


def _crowded(edges: Ints, depth: int) -> Iterator[Edge]:
    """The merged tokens that keep those in flight within `depth`."""
    late = np.flatnonzero(edges[depth:, 0] <= edges[:-depth, 1])
    if not len(late):
        return
    k, left = int(late[0]), [(source, key) for source, key in edges.tolist()]
    while k + depth < len(left):
        if left[k + depth][0] > left[k][1]:
            k += 1
            continue
        slack = [left[j][1] - left[j + 1][0] for j in range(k, k + depth)]
        j = k + max(range(depth), key=slack.__getitem__)  # the pair whose merged token delays least
        left[j : j + 2] = [(left[j + 1][0], left[j][1])]
        yield left[j]


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
