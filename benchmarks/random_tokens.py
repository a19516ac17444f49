"""Tokens of a random program: those that its dependences need, and more, so that queues fill and units block.

A token too many keeps the order of both ends in its queue, so that each needed token still meets its own pop; and no
queue ever holds more than the smallest depth in program order, which therefore stays a valid execution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vdla.compiler.tokens import QUEUES, Edge, Place, Queue
from vdla.hardware.config import MIN_TOKEN_DEPTH
from vdla.hardware.isa import Instruction


def crowded(places: Sequence[Place], rng: np.random.Generator, wish: float) -> list[Place]:
    """The places with extra tokens in each queue; `wish` from 0 to 1 says how many are tried."""
    result = list(places)
    for queue in QUEUES:
        edges = _edges(result, queue)
        sources, targets = ([k for k, place in enumerate(result) if place.unit == unit] for unit in queue)
        late = rng.random() < 0.7  # tokens that stay long in their queue fill it
        for source in rng.permutation(sources)[: int(wish * len(sources))].tolist():
            edge = _extra(edges, source, targets, rng, late)
            if edge is not None:
                edges.insert(bisect_left(edges, edge), edge)
                _add(result, queue, edge)
    return result


def _edges(places: Sequence[Place], queue: Queue) -> list[Edge]:
    """The k-th push of a queue with the k-th pop."""
    source, target = queue
    pushes = [k for k, place in enumerate(places) if place.unit == source and target in place.pushes]
    pops = [k for k, place in enumerate(places) if place.unit == target and source in place.pops]
    return list(zip(pushes, pops, strict=True))


def _extra(
    edges: Sequence[Edge], source: int, targets: Sequence[int], rng: np.random.Generator, late: bool
) -> Edge | None:
    at = bisect_left(edges, (source, -1))
    if at < len(edges) and edges[at][0] == source:
        return None
    first = max(source, edges[at - 1][1] if at else -1)
    last = edges[at][1] if at < len(edges) else 1 << 62
    choices = [target for target in targets if first < target < last]
    if late:
        choices.reverse()
    else:
        rng.shuffle(choices)
    return next((edge for target in choices if _fits(edges, at, edge := (source, target))), None)


def _fits(edges: Sequence[Edge], at: int, edge: Edge) -> bool:
    """Whether no queue holds more than the smallest depth with this edge at its place."""
    near = [*edges[max(0, at - MIN_TOKEN_DEPTH) : at], edge, *edges[at : at + MIN_TOKEN_DEPTH]]
    return all(later[0] > earlier[1] for earlier, later in zip(near, near[MIN_TOKEN_DEPTH:], strict=False))


def _add(places: list[Place], queue: Queue, edge: Edge) -> None:
    (source, target), (push, pop) = queue, edge
    places[push] = replace(places[push], pushes=places[push].pushes | {target})
    places[pop] = replace(places[pop], pops=places[pop].pops | {source})


def with_tokens(instruction: Instruction, place: Place) -> Instruction:
    """The instruction with the tokens of its place."""
    bits = {
        f"{verb}_{side}": int(place.unit + distance in {int(unit) for unit in units})
        for verb, units in (("pop", place.pops), ("push", place.pushes))
        for side, distance in (("prev", -1), ("next", 1))
    }
    return replace(instruction, **bits)
