# SPDX-License-Identifier: Apache-2.0
"""Graphs as text: one line a value, bodies indented.

graph small
  input x: float32[1, 8]
  constant w: float32[8, 4]
  y: float32[1, 4] = MatMul(x, w)
  output y
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vdla.compiler.graph.graph import Attribute, Graph, Node, ValueType

_SHORT = 8  # elements of a constant that are printed


def graph_text(graph: Graph) -> str:
    """The graph, its constants of up to 8 elements with their values."""
    return "\n".join(_lines(graph, "graph", ""))


def node_text(node: Node) -> str:
    """One node without types and bodies."""
    return f"{', '.join(name or '_' for name in node.outputs)} = {_call(node)}"


def _lines(graph: Graph, keyword: str, indent: str) -> Iterator[str]:
    yield f"{indent}{keyword} {graph.name}"
    inner = indent + "  "
    for name in graph.inputs:
        yield f"{inner}input {name}: {_type(graph, name)}"
    for name, value in graph.constants.items():
        yield f"{inner}constant {name}: {_type(graph, name)}{_contents(value)}"
    for node in graph.nodes:
        results = ", ".join(f"{name}: {_type(graph, name)}" if name else "_" for name in node.outputs)
        yield f"{inner}{results} = {_call(node)}"
        for key, body in node.bodies.items():
            yield from _lines(body, key, inner + "  ")
    yield f"{inner}output {', '.join(graph.outputs)}"


def _type(graph: Graph, name: str) -> ValueType | str:
    return graph.types.get(name, "?")


def _contents(value: np.ndarray) -> str:
    return f" = {value.tolist()}" if value.size <= _SHORT else ""


def _call(node: Node) -> str:
    options = [f"{key}={_attribute(v)}" for key, v in node.attributes.items() if not isinstance(v, Graph)]
    return f"{node.op}({', '.join([*(name or '_' for name in node.inputs), *options])})"


def _attribute(value: Attribute) -> str:
    match value:
        case np.ndarray():
            return f"{value.dtype}{list(value.shape)}{_contents(value)}"
        case float():
            return f"{value:.9g}"
        case tuple():
            return f"[{', '.join(map(_attribute, value))}]"
        case _:
            return str(value) if not isinstance(value, str | bytes) else repr(value)
