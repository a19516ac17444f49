# SPDX-License-Identifier: Apache-2.0
"""Rewrites: what takes the place of a node."""

import numpy as np
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import Node, TensorType, check_graph
from vdla.compiler.graph.rewriting import Replacement, rewrite

ONE = np.float32(1)


def as_constant(graph, node):
    """A constant, which nothing reads yet, in place of a Neg."""
    if node.op != "Neg":
        return None
    return Replacement((), {"one": ONE}, {"one": TensorType("float32", ())}, {node.outputs[0]: "one"})


def test_a_new_constant_takes_the_place_of_a_value():
    nodes = (Node("Neg", ("x",), ("a",)), Node("Add", ("a", "x"), ("y",)), Node("Sub", ("a", "y"), ("z",)))
    graph = check_graph(rewrite(small_graph(nodes, outputs=("y", "z")), (as_constant,)))
    assert [node.inputs for node in graph.nodes] == [("one", "x"), ("one", "y")]
    assert graph.constants == {"one": ONE}


def test_a_new_constant_takes_the_place_of_an_output():
    graph = check_graph(rewrite(small_graph([Node("Neg", ("x",), ("y",))]), (as_constant,)))
    assert operators_of(graph) == ["Identity"]
    assert graph.constants == {"one": ONE}
