# SPDX-License-Identifier: Apache-2.0
"""Constant folding: what is evaluated, and what stays."""

import numpy as np
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import GraphError, Node, TensorType, check_graph
from vdla.compiler.graph.passes import fold_constants
from vdla.compiler.graph.passes.fold_constants import MAX_GROWTH_BYTES


def evaluate(node, inputs):
    match node.op:
        case "Neg":
            return (-inputs[0],)
        case "Expand":
            return (np.broadcast_to(inputs[0], inputs[1]),)
        case "QuantizeLinear":
            return (np.rint(inputs[0] / inputs[1]).astype(np.uint8),)
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


def infer(node, types, constants):
    """The type of an Expand, as far as ONNX would know it."""
    if node.op != "Expand" or node.inputs[1] not in constants:
        return {}
    return {node.outputs[0]: TensorType("float32", tuple(constants[node.inputs[1]].tolist()))}


def test_folded_constants_decide_shapes_and_these_the_next():
    """All in one sweep: s = -n, a = Expand(x, s), t = Shape(a), u = -t, y = Expand(x, -u)."""
    texts = ("Neg n s", "Expand x,s a", "Shape a t", "Neg t u", "Neg u v", "Expand x,v y")
    nodes = [Node(op, tuple(read.split(",")), (made,)) for op, read, made in map(str.split, texts)]
    graph = small_graph(nodes, n=np.array([-4, -2, -3]))
    shapes = {"a": None, "y": (None, "columns", None)}
    graph = graph.replace(types={**graph.types, **{name: TensorType("float32", s) for name, s in shapes.items()}})
    made = check_graph(fold_constants(graph, evaluate, infer=infer), "after fold,")
    assert [str(node) for node in made.nodes] == ["a = Expand(x, s)", "y = Expand(x, v)"]
    assert made.types["a"] == made.types["y"] == TensorType("float32", (4, 2, 3))
    assert operators_of(fold_constants(graph, evaluate)) == ["Expand", "Shape", "Neg", "Neg", "Expand"]


def test_a_refined_shape_that_is_far_larger_stays():
    texts = ("Neg n s", "Expand c,s a", "Neg a y")
    nodes = [Node(op, tuple(read.split(",")), (made,)) for op, read, made in map(str.split, texts)]
    graph = small_graph(nodes, n=np.array([-1, -MAX_GROWTH_BYTES]), c=C[:1, :1])
    kinds = {name: TensorType("float32", None) for name in ("a", "y")}
    made = fold_constants(graph.replace(types={**graph.types, **kinds}), evaluate, infer=infer)
    assert operators_of(made) == ["Expand", "Neg"]


def test_weights_that_the_model_quantises_are_folded():
    assert not operators_of(folded(Node("QuantizeLinear", ("c", "s"), ("y",)), c=C, s=np.float32(2)))
