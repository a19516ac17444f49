"""Constant folding: what is evaluated, and what stays."""

import numpy as np
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import GraphError, Node, check_graph
from vdla.compiler.graph.passes import fold_constants
from vdla.compiler.graph.passes.fold_constants import MAX_GROWTH_BYTES


def evaluate(node, inputs):
    match node.op:
        case "Neg":
            return (-inputs[0],)
        case "Expand":
            return (np.broadcast_to(inputs[0], inputs[1]),)
        case _:
            raise GraphError(f"{node.op}: unknown")


C = np.full((2, 3), 2, np.float32)


def folded(*nodes, **options):
    return check_graph(fold_constants(small_graph(nodes, **options), evaluate), "after fold,")


def test_chains_of_constants():
    graph = folded(Node("Neg", ("c",), ("a",)), Node("Neg", ("a",), ("b",)), Node("Add", ("x", "b"), ("y",)), c=C)
    assert operators_of(graph) == ["Add"]
    assert np.array_equal(graph.constants["b"], C)


def test_shapes_of_values_are_constants():
    nodes = (Node("Shape", ("x",), ("s",), {"start": 1}), Node("Reshape", ("c", "s"), ("y",)))
    graph = folded(*nodes, c=C)
    assert operators_of(graph) == ["Reshape"]
    assert graph.constants["s"].tolist() == [3]


def test_what_stays():
    assert operators_of(folded(Node("Unknown", ("c",), ("y",)), c=C)) == ["Unknown"]
    assert operators_of(folded(Node("DequantizeLinear", ("c",), ("y",)), c=C)) == ["DequantizeLinear"]
    assert operators_of(folded(Node("RandomNormalLike", ("c",), ("y",)), c=C)) == ["RandomNormalLike"]
    large = np.array([1, MAX_GROWTH_BYTES])
    node = Node("Expand", ("c", "s"), ("y",))
    assert operators_of(folded(node, shapes={"y": tuple(large.tolist())}, c=C[:1, :1], s=large)) == ["Expand"]
    assert not operators_of(folded(node, shapes={"y": (4, 3)}, c=C[:1], s=np.array([4, 3])))
