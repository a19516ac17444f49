# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions: equal nodes and equal constants become one, random nodes stay."""

import copy

import numpy as np
import pytest
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import Node, check_graph
from vdla.compiler.graph.passes import merge_common_subexpressions


def test_chains_merge():
    nodes = [Node("Relu", ("x",), ("a",)), Node("Relu", ("x",), ("b",)), Node("Exp", ("a",), ("c",))]
    nodes += [Node("Exp", ("b",), ("d",)), Node("Add", ("c", "d"), ("y",))]
    graph = check_graph(merge_common_subexpressions(small_graph(nodes)))
    assert operators_of(graph) == ["Relu", "Exp", "Add"]
    assert graph.nodes[-1].inputs == ("c", "c")


def test_attributes_tell_nodes_apart():
    nodes = [Node("LeakyRelu", ("x",), ("a",), {"alpha": 0.1}), Node("LeakyRelu", ("x",), ("b",), {"alpha": 0.2})]
    graph = merge_common_subexpressions(small_graph([*nodes, Node("Add", ("a", "b"), ("y",))]))
    assert operators_of(graph) == ["LeakyRelu", "LeakyRelu", "Add"]


def test_random_nodes_stay():
    nodes = [Node("RandomNormalLike", ("x",), ("a",)), Node("RandomNormalLike", ("x",), ("b",))]
    graph = merge_common_subexpressions(small_graph([*nodes, Node("Add", ("a", "b"), ("y",))]))
    assert len(graph.nodes) == 3


def test_constants_merge_by_value_and_type():
    nodes = [Node("Add", ("x", "c"), ("a",)), Node("Add", ("x", "d"), ("b",)), Node("Mul", ("a", "b"), ("y",))]
    one = np.ones((1,), np.float32)
    graph = check_graph(merge_common_subexpressions(small_graph(nodes, c=one, d=one.copy())))
    assert operators_of(graph) == ["Add", "Mul"]
    assert list(graph.constants) == ["c"]


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 2), (1, 2, 0)), ((0.0,), (-0.0,)), ((1,), (True,)), ((1,), (1.0,)), (("1",), (1,)), (((1,),), ((2,),))],
)
def test_tuples_tell_nodes_apart_by_values_and_types(first, second):
    nodes = [
        Node("example.F", ("x",), (name,), {"t": value}) for name, value in zip("ab", (first, second), strict=True)
    ]
    graph = merge_common_subexpressions(small_graph([*nodes, Node("Add", ("a", "b"), ("y",))]))
    assert operators_of(graph) == ["example.F", "example.F", "Add"]


def test_tuples_of_arrays_merge_by_value():
    value = (np.arange(3000), (0.5, "text", (np.ones(2), 1)))
    nodes = [Node("example.F", ("x",), (name,), {"t": copy.deepcopy(value)}) for name in "ab"]
    graph = merge_common_subexpressions(small_graph([*nodes, Node("Add", ("a", "b"), ("y",))]))
    assert operators_of(graph) == ["example.F", "Add"]


def test_attributes_of_a_node_that_reads_alone_are_not_compared():
    class Text(str):
        __slots__ = ()

        def __repr__(self):
            raise AssertionError("compared")

    nodes = [Node("example.F", ("x",), ("a",), {"t": Text()}), Node("example.F", ("a",), ("y",), {"t": Text()})]
    assert len(merge_common_subexpressions(small_graph(nodes)).nodes) == 2
