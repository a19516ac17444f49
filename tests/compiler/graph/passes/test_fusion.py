# SPDX-License-Identifier: Apache-2.0
"""Fusion: which nodes become one kernel, by the classes of their operators."""

import numpy as np
import pytest
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import Node, check_graph
from vdla.compiler.graph.groups import BODY, body_of
from vdla.compiler.graph.operators.graph_function import graph_function
from vdla.compiler.graph.passes.fusion import fuse
from vdla.compiler.target import Target

W = np.ones((3, 3), np.float32)


def groups(nodes, **options):
    """The names of the groups after fusion, all their bodies checked."""
    graph = check_graph(fuse(small_graph(nodes, **options)))
    return [node.name if BODY in node.attributes else node.op for node in graph.nodes]


def test_element_wise_operators_join_a_product():
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("Add", ("a", "b"), ("c",)), Node("Relu", ("c",), ("y",))]
    assert groups(nodes, w=W, b=W[0]) == ["MatMul+Add+Relu"]


def test_injective_operators_join_each_other():
    nodes = [Node("Relu", ("x",), ("a",)), Node("Add", ("a", "x"), ("y",))]
    assert groups(nodes) == ["Relu+Add"]


def test_a_product_does_not_take_its_inputs():
    nodes = [Node("Relu", ("x",), ("a",)), Node("MatMul", ("a", "w"), ("y",))]
    assert groups(nodes, w=W) == ["Relu", "MatMul"]


def test_a_value_with_another_reader_ends_a_group():
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("Relu", ("a",), ("b",)), Node("MatMul", ("a", "b"), ("y",))]
    assert groups(nodes, shape=(3, 3), w=W) == ["MatMul", "Relu", "MatMul"]
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("Relu", ("a",), ("y",))]
    assert groups(nodes, outputs=("a", "y"), w=W) == ["MatMul", "Relu"]


def test_a_value_whose_readers_all_join():
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("Relu", ("a",), ("b",)), Node("Add", ("a", "b"), ("y",))]
    assert groups(nodes, w=W) == ["MatMul+Relu+Add"]


def test_a_sum_of_two_products_joins_the_later_one():
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("MatMul", ("x", "v"), ("b",)), Node("Add", ("a", "b"), ("y",))]
    assert groups(nodes, w=W, v=2 * W) == ["MatMul", "MatMul+Add"]


def test_an_operator_that_broadcasts_the_product_stays_out():
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("Add", ("a", "z"), ("y",))]
    z = np.ones((2, 1, 3), np.float32)
    assert groups(nodes, shapes={"y": (2, 2, 3)}, w=W, z=z) == ["MatMul", "Add"]


def test_unknown_extents_are_opaque():
    nodes = [Node("Relu", ("x",), ("a",)), Node("Relu", ("a",), ("y",))]
    assert groups(nodes, shape=("n", 3)) == ["Relu", "Relu"]


@pytest.mark.parametrize("at", ["before", "after"])
def test_operators_without_a_rule_are_opaque(at):
    nodes = [Node("Unknown", ("x",), ("a",)), Node("Relu", ("a",), ("y",))]
    if at == "after":
        nodes = [Node("Relu", ("x",), ("a",)), Node("Unknown", ("a",), ("y",))]
    assert len(groups(nodes)) == 2


def test_equal_groups_have_equal_functions():
    nodes = [Node("MatMul", ("x", "w"), ("a",)), Node("Relu", ("a",), ("b",))]
    nodes += [Node("MatMul", ("b", "v"), ("c",)), Node("Relu", ("c",), ("y",))]
    graph = fuse(small_graph(nodes, w=W, v=2 * W))
    assert operators_of(graph) == ["vdla.Fused", "vdla.Fused"]
    one, other = (graph_function(body_of(graph, node), Target.named("x86-64-avx2")) for node in graph.nodes)
    assert str(one.function) == str(other.function)
    assert (one.inputs, other.inputs) == (("x",), ("b",))
    ((name, first),), (second,) = one.constants.items(), other.constants.values()
    assert name in str(one.function)
    assert np.array_equal(second, 2 * first)
