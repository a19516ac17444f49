# SPDX-License-Identifier: Apache-2.0
"""Values without elements, known without computing anything.

An empty value of known extents is a constant. A node with only empty results is removed; a node
that depends only on empty values, such as a sum over nothing, is then folded like any other
constant.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import ml_dtypes
import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.rewriting import fresh_name

_MOST_ELEMENTS = 1 << 40  # that the other extents of an array may have: NumPy refuses more


def settle_empties(graph: Graph) -> Graph:
    """The graph with every empty value of known extents as a constant, and without its nodes.

    Unchanged nodes stay the same objects, and so does an unchanged graph.
    """
    empty = {name: made for name in graph.values if (made := _empty(graph, name)) is not None}
    if not empty:
        return graph
    inputs = {name: fresh_name(graph, f"{name}_empty") for name in graph.inputs if name in empty}
    constants, types = {**graph.constants}, {**graph.types}
    for name, made in empty.items():
        constants[inputs.get(name, name)] = made
        types[inputs.get(name, name)] = graph.types[name]
    nodes = []
    for node in graph.nodes:
        if all(name in empty for name in node.outputs if name):
            continue
        nodes.append(_without_empties(node, empty, inputs))
    if tuple(map(id, nodes)) == tuple(map(id, graph.nodes)):
        return graph
    return graph.replace(nodes=tuple(nodes), constants=constants, types=types)


def _without_empties(node: Node, empty: dict[str, Array], inputs: dict[str, str]) -> Node:
    """The node with constants for its empty inputs (a Concat without them), and without empty
    results.
    """
    if node.op == "Concat":
        read = tuple(name for name in node.inputs if name not in empty)
    else:
        read = tuple(inputs.get(name, name) for name in node.inputs)
    made = tuple("" if name in empty else name for name in node.outputs)
    return node if (read, made) == (node.inputs, node.outputs) else replace(node, inputs=read, outputs=made)


def _empty(graph: Graph, name: str) -> Array | None:
    """The value, if it has no elements whatever is computed."""
    kind = graph.types.get(name)
    if not isinstance(kind, TensorType) or not kind.static or 0 not in kind.extents:
        return None
    if prod(extent or 1 for extent in kind.extents) > _MOST_ELEMENTS:
        return None
    dtype = object if kind.dtype == "str" else getattr(ml_dtypes, kind.dtype, kind.dtype)
    return np.empty(kind.extents, dtype)
