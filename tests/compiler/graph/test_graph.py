# SPDX-License-Identifier: Apache-2.0
"""Graphs: the rules that hold between passes, their text, and pruning."""

import re
from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.graph import Graph, GraphError, Node, TensorType, check_graph
from vdla.compiler.graph.accelerator import ACCELERATED
from vdla.compiler.graph.grid import GRID
from vdla.compiler.graph.groups import FUSED

ROW, WEIGHT, RESULT = (TensorType("float32", shape) for shape in ((1, 2), (2, 3), (1, 3)))


def product() -> Graph:
    return Graph(
        name="small",
        inputs=("x",),
        outputs=("z",),
        nodes=(Node("MatMul", ("x", "w"), ("y",)), Node("Relu", ("y",), ("z",), name="act")),
        constants={"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
        types={"x": ROW, "w": WEIGHT, "y": RESULT, "z": RESULT},
    )


def test_text():
    assert str(product()) == (
        "graph small\n"
        "  input x: float32[1, 2]\n"
        "  constant w: float32[2, 3] = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n"
        "  y: float32[1, 3] = MatMul(x, w)\n"
        "  z: float32[1, 3] = Relu(y)\n"
        "  output z"
    )


def test_text_of_bodies_and_attributes():
    body = replace(product(), name="then")
    node = Node("If", ("c", ""), ("r", ""), {"then_branch": body, "else_branch": body, "captures": 1})
    other = Node("example.Op", ("c", ""), ("r", ""), {"k": (1, 2), "scale": 0.1, "mode": "a"})
    assert str(other) == "r, _ = example.Op(c, _, k=[1, 2], scale=0.100000001, mode='a')".replace("0.100000001", "0.1")
    graph = Graph("g", ("c",), ("r",), (node,), {}, {"c": TensorType("bool", ()), "r": RESULT})
    assert "      then_branch then" not in str(graph)
    assert "    then_branch then\n      input x: float32[1, 2]" in str(graph)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": ("q",)}, "after fold small: outputs must be values of the graph, got q"),
        ({"inputs": ()}, "after fold small: inputs of MatMul y must be defined before it, got x"),
        (
            {"types": {"x": ROW, "w": WEIGHT, "y": RESULT}},
            "after fold small: every value must have a type, got none for z",
        ),
        ({"inputs": ("x", "y")}, "after fold small: every value must be defined once, got y twice"),
        (
            {"constants": {"w": np.zeros((3, 2), np.float32)}},
            "after fold small: constant w must have its type's shape float32[2, 3], got [3, 2]",
        ),
    ],
)
def test_broken_rules(change, message):
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        check_graph(replace(product(), **change), "after fold")
    check_graph(product())


def test_bodies_are_checked():
    body = replace(product(), inputs=())
    node = Node("If", ("c",), ("r",), {"then_branch": body, "else_branch": body}, "choose")
    graph = Graph("g", ("c",), ("r",), (node,), {}, {"c": TensorType("bool", ()), "r": RESULT})
    rule = "graph g, then_branch of If choose: small: inputs of MatMul y must be defined before it, got x"
    with pytest.raises(GraphError, match=f"^{re.escape(rule)}$"):
        check_graph(graph)


def test_replace_prunes():
    graph = product().replace(nodes=(Node("Relu", ("x",), ("z",)),))
    assert not graph.constants
    assert set(graph.types) == {"x", "z"}


def test_uses():
    graph = product()
    assert graph.producers["z"].op == "Relu"
    assert [node.op for node in graph.consumers["y"]] == ["Relu"]
    assert (graph.readers("y"), graph.readers("z"), graph.readers("w")) == (1, 1, 1)
    with pytest.raises(GraphError, match=r"^graph small: q must be a tensor, got no such value$"):
        graph.tensor("q")


@pytest.mark.parametrize(
    ("dtype", "nbytes"),
    [
        ("bool", 6), ("int4", 6), ("uint8", 6), ("float8_e4m3fn", 6), ("bfloat16", 12), ("float16", 12),
        ("float32", 24), ("complex64", 48), ("int64", 48), ("str", 48), ("complex128", 96),
    ],
)  # fmt: skip
def test_the_bytes_of_a_tensor_are_those_of_its_type(dtype: str, nbytes: int) -> None:
    assert TensorType(dtype, (2, 3)).nbytes == nbytes
    assert TensorType(dtype, ()).nbytes == nbytes // 6
    assert TensorType(dtype, (0, 3)).nbytes == 0


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("Relu", {"alpha": 1.0}, "Relu y: attributes must be those of Relu (none), got alpha"),
        ("Elu", {"beta": 1.0}, "Elu y: attributes must be those of Elu (alpha), got beta"),
        ("Elu", {"alpha": "1"}, "Elu y: attribute alpha must be a number, got '1'"),
        ("Gather", {"axis": 0.5}, "Gather y: attribute axis must be an integer, got 0.5"),
        ("Transpose", {"perm": 1}, "Transpose y: attribute perm must be a tuple of integers, got 1"),
        ("Concat", {}, "Concat y: attribute axis must be given, got none"),
        ("vdla.QDense", {}, "vdla.QDense y: attribute x_zero_point must be given, got none"),
        ("vdla.Repack", {"lanes": 4}, "vdla.Repack y: attributes must be those of vdla.Repack (none), got lanes"),
        ("vdla.RowTerms", {"factor": 1}, "vdla.RowTerms y: attribute count must be given, got none"),
        (FUSED, {"body": "x"}, "vdla.Fused y: attribute body must be of the class Graph, got 'x'"),
        (GRID, {}, "vdla.Grid y: attribute body must be given, got none"),
        (
            ACCELERATED,
            {"region": 1},
            "vdla.Accelerated y: attribute region must be of the class AcceleratedRegion, got 1",
        ),
    ],
)
def test_attributes_are_those_of_the_operator(op, attributes, message):
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        Node(op, ("x",), ("y",), attributes)


def test_an_attribute_that_is_left_out_is_the_default():
    assert Node("LeakyRelu", ("x",), ("y",)).attribute("alpha") == 0.01
    assert Node("LeakyRelu", ("x",), ("y",), {"alpha": 0.5}).attribute("alpha") == 0.5
    assert Node("DepthToSpace", ("x",), ("y",), {"blocksize": 2}).attribute("mode") == "DCR"
    assert Node("Transpose", ("x",), ("y",)).attribute("perm") is None
    assert Node("example.Unknown", ("x",), ("y",), {"k": 1}).attribute("k") == 1


def test_hints_may_stand_at_any_node():
    assert Node("Relu", ("x",), ("y",), {"vdla.algorithm": "direct"}).attribute("vdla.algorithm") == "direct"
