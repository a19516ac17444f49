# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions: nodes that apply one operator to the same values become one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.rewriting import Replacement, rewrite


def merge_common_subexpressions(graph: Graph) -> Graph:
    """The graph with equal constants and equal nodes merged, except random operators."""
    graph = _merge_constants(graph)
    while True:
        first: dict[Hashable, Node] = {}
        repeated: dict[int, Node] = {}
        alike = Counter(map(_reads, graph.nodes))
        for node in graph.nodes:
            key = _node_key(node) if alike[_reads(node)] > 1 else None
            if key is not None and (known := first.setdefault(key, node)) is not node:
                repeated[id(node)] = known
        if not repeated:
            return graph

        def merge(_: Graph, node: Node, repeated: dict[int, Node] = repeated) -> Replacement | None:
            known = repeated.get(id(node))
            if known is None:
                return None
            pairs = zip(node.outputs, known.outputs, strict=True)
            return Replacement(renamed={name: original for name, original in pairs if name}, matched=(known,))

        graph = rewrite(graph, [merge])


def is_random(node: Node) -> bool:
    """Whether two runs of a node may differ."""
    body_nodes = (inner for body in node.bodies.values() for inner in body.nodes)
    return has_trait(node.op, Trait.RANDOM) or any(map(is_random, body_nodes))


def are_equal(a: Node, b: Node) -> bool:
    """Whether two nodes apply one operator with the same attributes to the same values, and have
    results of the same names.
    """
    key = _node_key(a)
    return a is b or (a.outputs == b.outputs and key is not None and key == _node_key(b))


def _reads(node: Node) -> Hashable:
    """The operator of a node and its operands. Few nodes have the same ones, so that attributes,
    which may be large, are seldom compared.
    """
    return node.op, node.inputs, tuple(bool(name) for name in node.outputs)


def _node_key(node: Node) -> Hashable:
    """Equal for nodes with equal results; None for a node that is never merged."""
    if node.bodies or is_random(node):
        return None
    attributes = tuple(sorted((key, _attribute_key(value)) for key, value in node.attributes.items()))
    return _reads(node), attributes


_PLAIN = {int, float, str, bool}
"""Types whose values have equal texts if they are equal, and of one type."""


def _attribute_key(value: Any) -> Hashable:  # noqa: ANN401  any attribute
    if isinstance(value, np.ndarray):
        return "array", *_array_key(value)
    if isinstance(value, tuple) and not {*map(type, value)} <= _PLAIN:
        return "tuple", *map(_attribute_key, value)
    return type(value).__name__, repr(value)


def _array_key(value: Array) -> tuple[str, tuple[int, ...], bytes]:
    return str(value.dtype), value.shape, value.tobytes() if value.dtype != object else repr(value.tolist()).encode()


def _merge_constants(graph: Graph) -> Graph:
    """Equal constants merged; outputs of the graph keep their names."""
    first: dict[Hashable, str] = {}
    renamed = {}
    for name, value in graph.constants.items():
        known = first.setdefault(_array_key(value), name)
        if known != name and name not in graph.outputs:
            renamed[name] = known
    if not renamed:
        return graph
    nodes = tuple(
        Node(n.op, tuple(renamed.get(name, name) for name in n.inputs), n.outputs, n.attributes, n.name)
        for n in graph.nodes
    )
    return graph.replace(nodes=nodes)
