# SPDX-License-Identifier: Apache-2.0
"""Values without elements: constants, of which what reads them is folded or goes on."""

import numpy as np
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import Node, TensorType, check_graph
from vdla.compiler.graph.passes import settle_empties


def settled(*nodes, types=(), **options):
    graph = small_graph(nodes, **options)
    return check_graph(settle_empties(graph.replace(types={**graph.types, **dict(types)})), "after settle_empties,")


def test_graphs_with_elements_stay():
    graph = small_graph([Node("Relu", ("x",), ("y",))])
    assert settle_empties(graph) is graph


def test_nodes_without_results_are_gone():
    graph = settled(Node("Relu", ("x",), ("y",)), types={"y": TensorType("float32", (0, 3))})
    assert graph.nodes == ()
    assert graph.constants["y"].shape == (0, 3)


def test_empty_parts_of_a_concatenation_are_left_out():
    graph = settled(
        Node("Relu", ("x",), ("a",)),
        Node("Concat", ("x", "a", "x"), ("y",), {"axis": 0}),
        types={"a": TensorType("float32", (0, 3))},
    )
    assert operators_of(graph) == ["Concat"]
    assert graph.nodes[0].inputs == ("x", "x")


def test_an_empty_input_is_a_constant_where_it_is_read():
    empty = TensorType("float32", (0, 3))
    graph = settled(Node("ReduceSum", ("x",), ("y",)), types={"x": empty})
    assert graph.inputs == ("x",)
    assert graph.nodes[0].inputs == ("x_empty",)
    assert graph.constants["x_empty"].shape == (0, 3)


def test_types_of_every_kind():
    for dtype in ("str", "bool", "float8_e4m3fn", "int4", "complex64"):
        graph = settled(Node("Cast", ("x",), ("y",), {"to": dtype}), types={"y": TensorType(dtype, (0,))})
        assert np.dtype(graph.constants["y"].dtype).name == ("object" if dtype == "str" else dtype)
