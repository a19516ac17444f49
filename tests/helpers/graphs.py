# SPDX-License-Identifier: Apache-2.0
"""Small graphs from a list of nodes; every value without a given type has that of the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph import Graph, Node, TensorType, check_graph


def small_graph(
    nodes: Sequence[Node],
    shape: tuple[int, ...] = (2, 3),
    outputs: Sequence[str] = ("y",),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    **constants: np.ndarray,
) -> Graph:
    """A graph of input x and the given nodes; `shapes` are those of results unlike x."""
    kinds = {name: TensorType("float32", shape) for name in ("x", *(n for node in nodes for n in node.outputs if n))}
    kinds |= {name: TensorType("float32", other) for name, other in (shapes or {}).items()}
    kinds |= {name: TensorType(str(value.dtype), value.shape) for name, value in constants.items()}
    return check_graph(Graph("g", ("x",), tuple(outputs), tuple(nodes), constants, kinds))


def operators_of(graph: Graph) -> list[str]:
    """The operators of a graph's nodes, in order."""
    return [node.op for node in graph.nodes]


def operators_in_layouts(graph: Graph) -> list[str]:
    """The operators of a graph's nodes, those with an image in blocks of channels marked."""
    return [_in_layout(graph, node) for node in graph.nodes]


def _in_layout(graph: Graph, node: Node) -> str:
    kinds = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    if node.op == "vdla.Repack":
        return "to blocks" if kinds[1].lanes else "from blocks"
    return f"{node.op} in blocks" if any(kind.lanes for kind in kinds) else node.op
