"""The minimum cut of a network of capacities, by shortest augmenting paths (Edmonds and Karp)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

Vertex = Hashable
Capacities = Mapping[tuple[Vertex, Vertex], int]


def source_side(capacities: Capacities, source: Vertex, sink: Vertex) -> frozenset[Any]:
    """The vertices on the side of the source in the minimum cut that has the fewest there.

    Capacities are at least 0; no path of infinite ones may lead from the source to the sink.
    """
    residual: dict[Vertex, dict[Vertex, int]] = {}
    for (tail, head), capacity in capacities.items():
        forward = residual.setdefault(tail, {})
        forward[head] = forward.get(head, 0) + capacity
        residual.setdefault(head, {}).setdefault(tail, 0)
    while True:
        before = _search(residual, source, sink)
        if sink not in before:
            return frozenset(before)
        path = [(before[sink], sink)]
        while path[-1][0] != source:
            path.append((before[path[-1][0]], path[-1][0]))
        flow = min(residual[tail][head] for tail, head in path)
        for tail, head in path:
            residual[tail][head] -= flow
            residual[head][tail] += flow


def _search(residual: Mapping[Vertex, Mapping[Vertex, int]], source: Vertex, sink: Vertex) -> dict[Vertex, Vertex]:
    """Each vertex that can be reached, with the one before it; ends at the sink."""
    before, waiting = {source: source}, deque([source])
    while waiting and sink not in before:
        tail = waiting.popleft()
        for head, capacity in residual.get(tail, {}).items():
            if capacity and head not in before:
                before[head] = tail
                waiting.append(head)
    return before
