# SPDX-License-Identifier: Apache-2.0
"""Graphs without bodies as JSON; arrays, constants and attributes alike, are kept beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Attribute, Graph, Node, TensorType

_ARRAY = "array"


def graph_to_json(graph: Graph, arrays: list[Array]) -> dict[str, Any]:
    """A graph of tensors; its arrays are appended to `arrays`.

    Raises:
        GraphError: a body, or a value that is no tensor of known extents.
    """
    return {
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "nodes": [
            [node.op, list(node.inputs), list(node.outputs), _attributes(node, arrays), node.name]
            for node in graph.nodes
        ],
        "constants": {name: _reference(value, arrays) for name, value in graph.constants.items()},
        "types": {name: [graph.tensor(name).dtype, list(graph.tensor(name).extents)] for name in graph.types},
    }


def graph_from_json(raw: Mapping[str, Any], arrays: Sequence[Array]) -> Graph:
    """The graph of `graph_to_json`.

    Raises:
        GraphError: an attribute that its operator does not have.
        KeyError, TypeError, ValueError, IndexError: it is of another form.
    """
    nodes = [
        Node(op, tuple(inputs), tuple(outputs), {key: _value(item, arrays) for key, item in attributes.items()}, name)
        for op, inputs, outputs, attributes, name in raw["nodes"]
    ]
    return Graph(
        name=raw["name"],
        inputs=tuple(raw["inputs"]),
        outputs=tuple(raw["outputs"]),
        nodes=tuple(nodes),
        constants={name: arrays[item[_ARRAY]] for name, item in raw["constants"].items()},
        types={name: TensorType(dtype, tuple(map(int, extents))) for name, (dtype, extents) in raw["types"].items()},
    )


def _reference(value: Array, arrays: list[Array]) -> dict[str, int]:
    arrays.append(value)
    return {_ARRAY: len(arrays) - 1}


def _attributes(node: Node, arrays: list[Array]) -> dict[str, Any]:
    return {key: _json(node, value, arrays) for key, value in node.attributes.items()}


def _json(node: Node, value: Attribute, arrays: list[Array]) -> Any:  # noqa: ANN401  JSON
    match value:
        case np.ndarray():
            return _reference(value, arrays)
        case np.generic():
            return value.item()
        case tuple() | list():
            return [_json(node, item, arrays) for item in value]
        case bool() | int() | float() | str():
            return value
    raise GraphError(f"{node.label}: attributes must be numbers, strings or arrays, got {type(value).__name__}")


def _value(item: Any, arrays: Sequence[Array]) -> Attribute:  # noqa: ANN401  JSON
    if isinstance(item, dict):
        return arrays[item[_ARRAY]]
    return tuple(_value(one, arrays) for one in item) if isinstance(item, list) else item
