# SPDX-License-Identifier: Apache-2.0
"""Graphs on arrays: kernels, NumPy functions, control flow."""

import re

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.runtime.network.evaluate_nodes import EvaluationError
from vdla.runtime.network.evaluator import evaluate

ROW = TensorType("float32", (2, 4))


def small() -> Graph:
    nodes = (Node("Add", ("x", "w"), ("t",)), Node("Relu", ("t",), ("y",)), Node("Identity", ("y",), ("z",)))
    return Graph("small", ("x",), ("z",), nodes, {"w": np.full(4, -1, np.float32)}, {
        "x": ROW, "w": TensorType("float32", (4,)), "t": ROW, "y": ROW, "z": ROW,
    })  # fmt: skip


@pytest.mark.parametrize("prefer", ["kernel", "numpy", "size"])
def test_nodes_in_order(prefer):
    x = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
    seen = []
    results = evaluate(small(), {"x": x}, values=["t", "z"], prefer=prefer, observe=lambda name, _: seen.append(name))
    np.testing.assert_array_equal(results["t"], x - 1)
    np.testing.assert_array_equal(results["z"], np.maximum(x - 1, 0))
    assert seen == ["t", "y", "z"]


def test_wrong_inputs():
    for inputs, message in (
        ({}, "small: inputs must be x, got none"),
        ({"x": np.zeros((2, 4))}, "small: input x must be float32[2, 4], got float64[2, 4]"),
        ({"x": np.zeros((2, 3), np.float32)}, "small: input x must be float32[2, 4], got float32[2, 3]"),
    ):
        with pytest.raises(EvaluationError, match=f"^{re.escape(message)}$"):
            evaluate(small(), inputs)
    with pytest.raises(EvaluationError, match=r"^small: values must be values of the graph, got q$"):
        evaluate(small(), {"x": np.zeros((2, 4), np.float32)}, values=["q"])
