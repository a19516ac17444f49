# SPDX-License-Identifier: Apache-2.0
"""Integers of 4 and 2 bits take a byte each at run time: in process, from a file, at the inputs."""

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network

RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
X = np.linspace(-40, 40, 24, dtype=np.float32).reshape(2, 3, 4)


def short(values, kind):
    return np.asarray(values).astype(getattr(ml_dtypes, kind))


def model(nodes, inputs, constants) -> ModelProto:
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in inputs.items()
    ]
    fixed = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "short", given, outputs, fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


def in_bytes(array):
    return array.astype(np.int8 if array.dtype.name.startswith("int") else np.uint8)


def run_everywhere(made, inputs, tmp_path):
    """The result in process, which a saved model gives as well."""
    with compile_network(made, "host") as network:
        y = network.run(inputs).outputs["y"]
        network.save(tmp_path / "short.vdla")
    with Model.load(tmp_path / "short.vdla") as loaded:
        np.testing.assert_array_equal(loaded.run(inputs).outputs["y"], y)
    return y


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "input"])
@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize("kind", RANGES)
def test_quantised_to_few_bits_and_back(kind, axis, constant, tmp_path):
    """Negative zero points of a file keep their sign; sums are clipped to the few bits."""
    low, high = RANGES[kind]
    count = () if axis is None else (X.shape[axis],)
    zero = short(np.resize([low, high, low + 1], count), kind)
    parameters = {"scale": np.full(count, 2.5, np.float32), "zero": zero}
    chosen = {} if axis is None else {"axis": axis}
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], **chosen)]
    nodes.append(helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], **chosen))
    inputs, constants = ({"x": X}, parameters) if constant else ({"x": X, **parameters}, {})
    made = model(nodes, inputs, constants)
    (expected,) = ReferenceEvaluator(made).run(None, inputs)
    np.testing.assert_array_equal(run_everywhere(made, inputs, tmp_path), expected)
    given = {name: in_bytes(x) if x.dtype.name in RANGES else x for name, x in inputs.items()}
    np.testing.assert_array_equal(run_everywhere(made, given, tmp_path), expected)


@pytest.mark.parametrize("kind", RANGES)
def test_results_of_few_bits_are_bytes(kind, tmp_path):
    low, high = RANGES[kind]
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])]
    made = model(nodes, {"x": X}, {"scale": np.float32(2.5), "zero": short(low, kind)})
    y = run_everywhere(made, {"x": X}, tmp_path)
    assert y.dtype == in_bytes(short(0, kind)).dtype
    assert (y.min(), y.max()) == (low, high)


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_cast_like_has_the_range_of_few_bits(kind, tmp_path):
    """As a cast to that type, whatever stores the operand that names it."""
    x = np.arange(6, dtype=np.int32)
    nodes = [
        helper.make_node("CastLike", ["x", "like"], ["q"]),
        helper.make_node("Cast", ["q"], ["y"], to=TensorProto.INT32),
    ]
    inputs = {"x": x, "like": short([0], kind)}
    np.testing.assert_array_equal(run_everywhere(model(nodes, inputs, {}), inputs, tmp_path), x)


@pytest.mark.parametrize("block", [None, 4])
@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_weights_of_four_bits(kind, block, tmp_path):
    """A product with a dequantised weight of 4 bits, by channel and by block."""
    x = X.reshape(3, 8) / 40
    low, high = RANGES[kind]
    weight = short(np.random.default_rng(1).integers(low, high + 1, (8, 5)), kind)
    shape = (5,) if block is None else (2, 5)
    scale = np.linspace(0.1, 0.3, 5, dtype=np.float32) * np.ones(shape, np.float32)
    chosen = {"axis": 1} if block is None else {"axis": 0, "block_size": block}
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["v"], **chosen)]
    nodes.append(helper.make_node("MatMul", ["x", "v"], ["y"]))
    made = model(nodes, {"x": x}, {"w": weight, "scale": scale, "zero": short(np.full(shape, low + 3), kind)})
    (expected,) = ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_allclose(run_everywhere(made, {"x": x}, tmp_path), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_a_node_without_a_kernel_between_others_runs(kind, tmp_path):
    """Neighbours with which it would be one kernel have theirs."""
    x = X.astype(kind)
    parameters = {"scale": np.asarray(0.5, kind), "zero": np.asarray(3, np.int8)}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    made = model(nodes, {"x": x}, parameters)
    made.opset_import[0].version = 25 if kind == "float16" else 23
    if kind == "float64":
        del made.graph.node[1:3]
        made.graph.node.insert(1, helper.make_node("Cast", ["r"], ["q"], to=TensorProto.BFLOAT16))
        made.graph.node.insert(2, helper.make_node("Cast", ["q"], ["d"], to=TensorProto.DOUBLE))
    (expected,) = ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_allclose(run_everywhere(made, {"x": x}, tmp_path), expected, rtol=1e-2)
