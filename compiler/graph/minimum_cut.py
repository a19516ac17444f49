# SPDX-License-Identifier: Apache-2.0
"""The minimum cut of a network of capacities, by blocking flows along shortest paths.

Source: E. A. Dinic, Algorithm for solution of a problem of maximum flow in networks with power
estimation, 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import Any

Vertex = Hashable
Capacities = Mapping[tuple[Vertex, Vertex], int]


def source_side(capacities: Capacities, source: Vertex, sink: Vertex) -> frozenset[Any]:
    """The vertices on the source side of the minimum cut, the smallest set if there are several.

    Capacities are at least 0; no path of infinite ones may lead from the source to the sink.
    """
    residual: dict[Vertex, dict[Vertex, int]] = {source: {}}
    for (tail, head), capacity in capacities.items():
        forward = residual.setdefault(tail, {})
        forward[head] = forward.get(head, 0) + capacity
        residual.setdefault(head, {}).setdefault(tail, 0)
    while True:
        level = _distances(residual, source)
        if sink not in level:
            return frozenset(level)
        _saturate(residual, level, source, sink)


def _distances(residual: Mapping[Vertex, Mapping[Vertex, int]], source: Vertex) -> dict[Vertex, int]:
    """The edges from the source to each vertex that it reaches."""
    level, waiting = {source: 0}, deque([source])
    while waiting:
        tail = waiting.popleft()
        for head, capacity in residual[tail].items():
            if capacity and head not in level:
                level[head] = level[tail] + 1
                waiting.append(head)
    return level


def _saturate(
    residual: dict[Vertex, dict[Vertex, int]], level: Mapping[Vertex, int], source: Vertex, sink: Vertex
) -> None:
    """Flow along shortest paths until each has an edge without capacity."""
    untried = {tail: [h for h in heads if level.get(h) == level.get(tail, -2) + 1] for tail, heads in residual.items()}
    path = [source]
    while path:
        tail = path[-1]
        if tail == sink:
            path = path[: _send(residual, path)]
            continue
        heads = untried[tail]
        while heads and not residual[tail][heads[-1]]:
            heads.pop()
        if heads:
            path.append(heads[-1])
            continue
        path.pop()
        if path:
            untried[path[-1]].pop()


def _send(residual: dict[Vertex, dict[Vertex, int]], path: list[Vertex]) -> int:
    """Send the largest flow along a path; the vertices before the first saturated edge."""
    edges = list(pairwise(path))
    flow = min(residual[tail][head] for tail, head in edges)
    for tail, head in edges:
        residual[tail][head] -= flow
        residual[head][tail] += flow
    return next(at for at, (tail, head) in enumerate(edges, 1) if not residual[tail][head])
