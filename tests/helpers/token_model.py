# SPDX-License-Identifier: Apache-2.0
"""An independent model of tokens: happens-before by reachability over starts and ends."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from vdla.compiler.codegen.vdla.tokens import IssuedOp
from vdla.hardware.isa import Unit

Edge = tuple[int, int]


def tokens_of(places: tuple[IssuedOp, ...]) -> list[Edge]:
    """The indices (push, pop) of every token; queues are FIFOs and end empty."""
    queues: dict[tuple[Unit, Unit], list[int]] = {}
    edges = []
    for index, place in enumerate(places):
        edges += [(queues[unit, place.unit].pop(0), index) for unit in sorted(place.pops)]
        for unit in place.pushes:
            queues.setdefault((place.unit, unit), []).append(index)
    assert not any(queues.values()), "tokens are left at the end"
    return edges


def ends_before(places: tuple[IssuedOp, ...], edges: list[Edge]) -> np.ndarray:
    """[a, b]: a always ends before b starts. Node 2i is the start of i, 2i + 1 its end."""
    n = len(places)
    reach = np.eye(2 * n, dtype=bool)
    successors: list[list[int]] = [[2 * i + 1] if node % 2 == 0 else [] for node in range(2 * n) for i in [node // 2]]
    for a, b in combinations(range(n), 2):
        if places[a].unit == places[b].unit:
            successors[2 * a].append(2 * b)
            successors[2 * a + 1].append(2 * b + 1)
    for a, b in edges:
        successors[2 * a + 1].append(2 * b)
    for node in reversed(range(2 * n)):  # all edges lead forwards
        for successor in successors[node]:
            reach[node] |= reach[successor]
    return reach[1::2, ::2]


def most_in_flight(places: tuple[IssuedOp, ...]) -> int:
    count: dict[tuple[Unit, Unit], int] = {}
    most = 0
    for place in places:
        for unit in place.pops:
            count[unit, place.unit] -= 1
        for unit in place.pushes:
            count[place.unit, unit] = count.get((place.unit, unit), 0) + 1
            most = max(most, count[place.unit, unit])
    return most
