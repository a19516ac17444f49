# SPDX-License-Identifier: Apache-2.0
"""Extra tokens for a random program, beyond its dependences, so that queues fill.

An extra token preserves the order of both ends of its queue, so that every needed token still meets
its own pop. In program order no queue holds more than the smallest depth, so program order remains
a valid execution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.random import Generator

from vdla.compiler.codegen.vdla import QUEUES, Edge, IssuedOp, Queue
from vdla.hardware.config import MIN_TOKEN_DEPTH
from vdla.hardware.isa import Instruction, Unit

MOST_LOADED = 4
CHOICES = ("first", "last", "last", "any")


@dataclass(frozen=True, slots=True)
class ExtraTokens:
    """Extra tokens to try: the share of pushing instructions, and the queue (None: all of them)."""

    share: float
    queue: Queue | None = None


def with_extra_tokens(places: Sequence[IssuedOp], rng: Generator, extra: ExtraTokens) -> list[IssuedOp]:
    """The places with extra tokens added."""
    result = list(places)
    middle = [k for k, place in enumerate(result) if place.unit == Unit.COMPUTE]
    for index in rng.permutation(middle)[:MOST_LOADED].tolist() if extra.share > rng.random() else ():
        _load_fully(result, index)
    for queue in QUEUES if extra.queue is None else (extra.queue,):
        pushers, poppers = ([k for k, place in enumerate(result) if place.unit == unit] for unit in queue)
        chosen = [source for number, source in enumerate(pushers) if _chosen(number, extra, rng)]
        _fill(result, queue, chosen, poppers, "last" if extra.queue else str(rng.choice(CHOICES)), rng)
    return result


def _load_fully(places: list[IssuedOp], index: int) -> None:
    """Gives an instruction of compute as many tokens as possible, from or to near neighbours."""
    for queue in QUEUES:
        edges = _edges(places, queue)
        if queue[0] == Unit.COMPUTE:
            near = (k for k in range(index + 1, len(places)) if places[k].unit == queue[1])
            edge = next((e for k in near if (e := _extra(edges, index, [k]))), None)
        else:
            near = (k for k in range(index - 1, -1, -1) if places[k].unit == queue[0])
            edge = next((e for k in near if (e := _extra(edges, k, [index]))), None)
        if edge is not None:
            _add(places, queue, edge)


def _chosen(number: int, extra: ExtraTokens, rng: Generator) -> bool:
    """Whether to push: at random, or evenly spaced if a queue is to be filled."""
    if extra.queue is None:
        return bool(rng.random() < extra.share)
    return int((number + 1) * extra.share) > int(number * extra.share)


def _fill(
    places: list[IssuedOp],
    queue: Queue,
    sources: Sequence[int],
    targets: Sequence[int],
    choice: str,
    rng: Generator,
) -> None:
    """Adds a token from each source to a target before the queue would be full."""
    edges = _edges(places, queue)
    for number, source in enumerate(sources):
        end = sources[number + MIN_TOKEN_DEPTH] if number + MIN_TOKEN_DEPTH < len(sources) else len(places)
        near = targets[bisect_left(targets, source) : bisect_left(targets, end)]
        ordered = {"first": near, "last": near[::-1], "any": rng.permutation(near).tolist()}[choice]
        edge = _extra(edges, source, ordered)
        if edge is not None:
            edges.insert(bisect_left(edges, edge), edge)
            _add(places, queue, edge)


def _edges(places: Sequence[IssuedOp], queue: Queue) -> list[Edge]:
    """(k-th push, k-th pop) of a queue, for each k."""
    source, target = queue
    pushes = [k for k, place in enumerate(places) if place.unit == source and target in place.pushes]
    pops = [k for k, place in enumerate(places) if place.unit == target and source in place.pops]
    return list(zip(pushes, pops, strict=True))


def _extra(edges: Sequence[Edge], source: int, targets: Sequence[int]) -> Edge | None:
    """A token from `source` to the first target that keeps the queue in order, or None."""
    at = bisect_left(edges, (source, -1))
    if at < len(edges) and edges[at][0] == source:
        return None
    first = edges[at - 1][1] if at else -1
    last = edges[at][1] if at < len(edges) else 1 << 62
    fitting = ((source, target) for target in targets if first < target < last)
    return next((edge for edge in fitting if _fits(edges, at, edge)), None)


def _fits(edges: Sequence[Edge], at: int, edge: Edge) -> bool:
    """Whether the queue stays within the smallest depth with this edge inserted."""
    near = [*edges[max(0, at - MIN_TOKEN_DEPTH) : at], edge, *edges[at : at + MIN_TOKEN_DEPTH]]
    return all(later[0] > earlier[1] for earlier, later in zip(near, near[MIN_TOKEN_DEPTH:], strict=False))


def _add(places: list[IssuedOp], queue: Queue, edge: Edge) -> None:
    (source, target), (push, pop) = queue, edge
    places[push] = replace(places[push], pushes=places[push].pushes | {target})
    places[pop] = replace(places[pop], pops=places[pop].pops | {source})


def with_tokens(instruction: Instruction, place: IssuedOp) -> Instruction:
    """The instruction with the token bits of its place."""
    bits: dict[str, Any] = {
        f"{verb}_{side}": int(place.unit + distance in {int(unit) for unit in units})
        for verb, units in (("pop", place.pops), ("push", place.pushes))
        for side, distance in (("prev", -1), ("next", 1))
    }
    return replace(instruction, **bits)
