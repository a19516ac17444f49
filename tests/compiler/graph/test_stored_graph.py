# SPDX-License-Identifier: Apache-2.0
"""Graphs as JSON and arrays, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.integer_layers import LAYERS, IntegerLayers

from vdla.compiler.graph import Graph, GraphError, Node, TensorType
from vdla.compiler.graph.stored_graph import graph_from_json, graph_to_json


def test_a_graph_comes_back_as_it_was() -> None:
    layers = IntegerLayers(1, (1, 6, 5, 6))
    for kind in LAYERS:
        layers.layer(kind)
    graph, arrays = layers.graph(), list[np.ndarray]()
    again = graph_from_json(json.loads(json.dumps(graph_to_json(graph, arrays))), arrays)
    assert str(again) == str(graph)
    for name, value in graph.constants.items():
        assert again.constants[name] is value
    for one, other in zip(graph.nodes, again.nodes, strict=True):
        assert one.attributes.keys() == other.attributes.keys()
        for key, value in one.attributes.items():
            assert np.array_equal(value, other.attributes[key]), key
            assert isinstance(other.attributes[key], type(value) if not isinstance(value, np.generic) else int)


def test_an_attribute_of_another_kind_is_refused() -> None:
    node = Node("vdla.Unknown", ("x",), ("y",), {"graph": TensorType("int8", (1,))}, "odd")
    graph = Graph("g", ("x",), ("y",), (node,), {}, {"x": TensorType("int8", (1,)), "y": TensorType("int8", (1,))})
    with pytest.raises(GraphError) as caught:
        graph_to_json(graph, [])
    assert str(caught.value) == "vdla.Unknown odd: attributes must be numbers, strings or arrays, got TensorType"


def test_an_open_extent_is_refused() -> None:
    graph = Graph("g", ("x",), ("x",), (), {}, {"x": TensorType("int8", ("batch",))})
    with pytest.raises(GraphError, match="every extent must be a number"):
        graph_to_json(graph, [])
