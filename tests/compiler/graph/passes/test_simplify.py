# SPDX-License-Identifier: Apache-2.0
"""Clean-up: which nodes disappear or merge, and which stay."""

import numpy as np
import pytest
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import Node, check_graph
from vdla.compiler.graph.passes import simplify


def simplified(*nodes, **options):
    return check_graph(simplify(small_graph(nodes, **options)), "after simplify,")


ONE, ZERO, TWO = (np.full((1,), value, np.float32) for value in (1, 0, 2))


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([Node("Identity", ("x",), ("a",))], {}),
        ([Node("Dropout", ("x",), ("a", ""))], {}),
        ([Node("Cast", ("x",), ("a",), {"to": "float32"})], {}),
        ([Node("Transpose", ("x",), ("a",), {"perm": (0, 1)})], {}),
        ([Node("Mul", ("x", "c"), ("a",))], {"c": ONE}),
        ([Node("Mul", ("c", "x"), ("a",))], {"c": ONE}),
        ([Node("Div", ("x", "c"), ("a",))], {"c": ONE}),
        ([Node("Sub", ("x", "c"), ("a",))], {"c": ZERO}),
        ([Node("Concat", ("x",), ("a",), {"axis": 0})], {}),
        ([Node("Pad", ("x", "c"), ("a",))], {"c": np.zeros(4, np.int64)}),
        ([Node("Reshape", ("x", "c"), ("a",))], {"c": np.array([2, 3])}),
    ],
)
def test_nodes_that_do_nothing(nodes, constants):
    graph = simplified(*nodes, Node("Relu", ("a",), ("y",)), **constants)
    assert operators_of(graph) == ["Relu"]
    assert graph.nodes[0].inputs == ("x",)


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        (Node("Mul", ("x", "c"), ("a",)), {"c": TWO}),
        (Node("Div", ("c", "x"), ("a",)), {"c": ONE}),
        (Node("Sub", ("c", "x"), ("a",)), {"c": ZERO}),
        (Node("Add", ("x", "c"), ("a",)), {"c": ZERO}),  # -0.0 + 0.0 is 0.0
        (Node("Pad", ("x", "c"), ("a",)), {"c": np.array([1, 0, -1, 0])}),
        (
            Node("Slice", ("x", "s", "e", "", "t"), ("a",)),
            {"s": np.array([1]), "e": np.array([-9]), "t": np.array([-1])},
        ),
        (Node("Dropout", ("x", "", "t"), ("a",)), {"t": np.array(True)}),
    ],
)
def test_nodes_that_stay(node, constants):
    assert operators_of(simplified(node, Node("Relu", ("a",), ("y",)), **constants)) == [node.op, "Relu"]


def test_an_output_keeps_its_name():
    graph = simplified(Node("Relu", ("x",), ("a",)), Node("Identity", ("a",), ("y",)))
    assert [str(node) for node in graph.nodes] == ["y = Relu(x)"]
    assert operators_of(simplified(Node("Identity", ("x",), ("y",)))) == ["Identity"]


def test_reshapes_in_a_row_become_one():
    nodes = (
        Node("Flatten", ("x",), ("a",), {"axis": 1}),
        Node("Unsqueeze", ("a", "c"), ("b",)),
        Node("Squeeze", ("b", "c"), ("y",)),
    )
    shapes = {"a": (2, 12), "b": (1, 2, 12), "y": (2, 12)}
    graph = simplified(*nodes, shape=(2, 3, 4), shapes=shapes, c=np.array([0]))
    assert operators_of(graph) == ["Reshape"]
    assert graph.constants[graph.nodes[0].inputs[1]].tolist() == [2, 12]


def test_transposes_compose():
    nodes = (
        Node("Transpose", ("x",), ("a",), {"perm": (1, 2, 0)}),
        Node("Transpose", ("a",), ("y",), {"perm": (1, 0, 2)}),
    )
    graph = simplified(*nodes, shape=(2, 3, 4), shapes={"a": (3, 4, 2), "y": (4, 3, 2)})
    assert [node.attributes["perm"] for node in graph.nodes] == [(2, 1, 0)]


def test_relu_before_a_clip_from_zero():
    limits = {"low": np.float32(0).reshape(()), "high": np.float32(6).reshape(())}
    nodes = (Node("Relu", ("x",), ("a",)), Node("Clip", ("a", "low", "high"), ("y",)))
    assert operators_of(simplified(*nodes, **limits)) == ["Clip"]
    limits["low"] = np.float32(-1).reshape(())
    assert operators_of(simplified(*nodes, **limits)) == ["Relu", "Clip"]


def test_copies_of_several_results_are_absorbed():
    copies = [Node("Identity", (source,), (name,)) for source, name in (("a", "y"), ("a", "z"), ("b", "w"), ("b", "v"))]
    outputs = ("y", "z", "w", "v")
    graph = simplified(Node("Split", ("x",), ("a", "b"), {"axis": 0, "num_outputs": 2}), *copies, outputs=outputs)
    assert [(node.op, node.inputs, node.outputs) for node in graph.nodes] == [
        ("Split", ("x",), ("y", "w")),
        ("Identity", ("y",), ("z",)),
        ("Identity", ("w",), ("v",)),
    ]
