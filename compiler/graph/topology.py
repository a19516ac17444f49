# SPDX-License-Identifier: Apache-2.0
"""The order of nodes: every value before its uses, otherwise as given."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Node


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes so that each follows those whose results it reads; the first possible one first.

    Raises:
        GraphError: nodes depend on each other in a circle.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    readers: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for index, node in enumerate(nodes):
        for maker in {makers[name] for name in node.inputs if name in makers}:
            readers[maker].append(index)
            missing[index] += 1
    ready = [index for index, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    ordered = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(nodes[index])
        for reader in readers[index]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(ordered) != len(nodes):
        stuck = next(node for node, count in zip(nodes, missing, strict=True) if count)
        raise GraphError(f"graph: nodes must not depend on each other in a circle, got {stuck.label} in one")
    return tuple(ordered)
