# SPDX-License-Identifier: Apache-2.0
"""The rules of a graph, checked after import and after every pass."""

from __future__ import annotations

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Extent, Graph, Node, TensorType


def check_graph(graph: Graph, where: str = "graph") -> Graph:
    """The graph, if every rule holds; `where` names the pass in the message.

    Raises:
        GraphError: a value without a type, defined twice or used before its definition; a constant
        whose array contradicts its type; a body that reads values of an outer graph.
    """
    place = f"{where} {graph.name}"
    defined: set[str] = set()
    for name in (*graph.inputs, *graph.constants):
        _define(place, graph, name, defined)
    for name, value in graph.constants.items():
        kind = graph.types[name]
        if not isinstance(kind, TensorType) or _array_shape(kind) != value.shape:
            raise GraphError(f"{place}: constant {name} must have its type's shape {kind}, got {list(value.shape)}")
    for node in graph.nodes:
        for name in filter(None, node.inputs):
            if name not in defined:
                raise GraphError(f"{place}: inputs of {node.label} must be defined before it, got {name}")
        for name in filter(None, node.outputs):
            _define(place, graph, name, defined)
        _check_bodies(place, node)
    for name in graph.outputs:
        if name not in defined:
            raise GraphError(f"{place}: outputs must be values of the graph, got {name}")
    return graph


def _array_shape(kind: TensorType) -> tuple[Extent, ...] | None:
    return kind.array_shape if kind.lanes else kind.shape


def _define(place: str, graph: Graph, name: str, defined: set[str]) -> None:
    if name in defined:
        raise GraphError(f"{place}: every value must be defined once, got {name} twice")
    if name not in graph.types:
        raise GraphError(f"{place}: every value must have a type, got none for {name}")
    defined.add(name)


def _check_bodies(place: str, node: Node) -> None:
    for key, body in node.bodies.items():
        check_graph(body, f"{place}, {key} of {node.label}:")
