# SPDX-License-Identifier: Apache-2.0
"""Layers in other words become Gemm and Relu, with the same results."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes.plain_layers import plain_layers
from vdla.runtime.network.evaluator import evaluate

R = np.random.default_rng(5)


def graph_of(op, arrays, constants=(), **attributes):
    names = [f"x{i}" for i in range(len(arrays) + len(constants))]
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in zip(names, arrays, strict=False)
    ]
    held = [numpy_helper.from_array(x, name) for name, x in zip(names[len(arrays) :], constants, strict=True)]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info("y")], held)
    opsets = [helper.make_opsetid("", 17)]
    return import_model(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def results(graph, arrays):
    (y,) = evaluate(graph, {f"x{i}": x for i, x in enumerate(arrays)}).values()
    return y


@pytest.mark.parametrize(("bias", "beta", "kept"), [(3, 0.0, 2), (0, 1.0, 2), (3, 1.0, 3), (np.inf, 0.0, 3)])
def test_a_bias_without_effect_is_dropped(bias, beta, kept):
    arrays = [R.normal(size=(3, 4)).astype(np.float32)]
    constants = [R.normal(size=(4, 5)).astype(np.float32), np.float32(bias)]
    plain = plain_layers(graph_of("Gemm", arrays, constants, beta=beta))
    assert len(plain.nodes[0].inputs) == kept


@pytest.mark.parametrize(("limit", "op"), [(np.zeros((), np.float32), "Relu"), (np.ones((), np.float32), "Max"),
                                           (np.zeros((2, 1, 1), np.float32), "Max")])  # fmt: skip
def test_a_maximum_with_zero_is_a_relu(limit, op):
    x = R.normal(size=(3, 4)).astype(np.float32)
    graph = graph_of("Max", [x], [limit])
    assert [node.op for node in plain_layers(graph).nodes] == [op]
    np.testing.assert_array_equal(results(plain_layers(graph), [x]), np.maximum(x, limit))
