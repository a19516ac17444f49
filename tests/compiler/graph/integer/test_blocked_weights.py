# SPDX-License-Identifier: Apache-2.0
"""Weights with scales of blocks as integers, against sums in NumPy and onnx.reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import int4
from onnx import ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vdla.compiler.graph.integer.affine import NotIntegerError, weight
from vdla.compiler.graph.onnx import import_model
from vdla.runtime.network.compile_network import compile_network

SCALE = np.float32(0.25)


def model_of(seed, inputs, outputs, size, *, transposed=False, factor=None):
    """A product of quantised values with a weight in blocks of inputs."""
    rng = np.random.default_rng(seed)
    blocks = -(-inputs // size)
    factors = rng.integers(1, 17, (blocks, outputs)) if factor is None else np.full((blocks, outputs), factor)
    numbers, scales = rng.integers(-8, 8, (inputs, outputs)), (factors * SCALE).astype(np.float32)
    values = (numbers * np.repeat(factors, size, 0)[:inputs]).astype(np.int64)
    axis = 1 if transposed else 0
    constants = {"x_scale": np.float32(0.5), "y_scale": np.float32(16), "zero": np.int8(3)}
    constants |= {"w": np.ascontiguousarray(numbers.T if transposed else numbers).astype(int4)}
    constants |= {"w_scale": np.ascontiguousarray(scales.T if transposed else scales)}
    product = helper.make_node(*("Gemm", ["xf", "wf"], ["yf"]), transB=1) if transposed else helper.make_node(
        "MatMul", ["xf", "wf"], ["yf"])  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "zero"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale"], ["wf"], axis=axis, block_size=size),
        product,
        helper.make_node("QuantizeLinear", ["yf", "y_scale", "zero"], ["y"]),
    ]
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    x = rng.integers(-128, 128, (3, inputs)).astype(np.int8)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 3, x.shape)], [ValueInfoProto(name="y")], kept
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, x, values


@settings(max_examples=10)
@given(
    seed=st.integers(0, 99), inputs=st.integers(3, 70), outputs=st.integers(1, 9), size=st.integers(2, 33),
    transposed=st.booleans(),
)  # fmt: skip
def test_products_are_those_of_the_integers(seed, inputs, outputs, size, transposed):
    model, x, values = model_of(seed, inputs, outputs, size, transposed=transposed)
    sums = (x.astype(np.int64) - 3) @ values
    wanted = np.clip(np.rint(sums * (0.5 * 0.25 / 16)) + 3, -128, 127)
    with compile_network(model, "host") as network:
        (step,) = [step for step in network.artifact.plan.steps if "QDense" in str(step.placement)]
        assert step
        np.testing.assert_array_equal(network.run({"x": x}).outputs["y"], wanted)


def test_the_reference_has_the_same_results():
    model, x, _ = model_of(1, 64, 5, 32)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
    with compile_network(model, "host") as network:
        assert np.abs(network.run({"x": x}).outputs["y"].astype(int) - wanted.astype(int)).max() <= 1


def test_scales_without_a_common_one_stay_float():
    model, x, _ = model_of(1, 64, 5, 32)
    scales = next(item for item in model.graph.initializer if item.name == "w_scale")
    other = numpy_helper.to_array(scales) * np.float32([[1.0], [1.01]])
    scales.CopyFrom(numpy_helper.from_array(other, "w_scale"))
    with pytest.raises(NotIntegerError, match="have scales of blocks that are an output's scale times 1 to 16, got"):
        weight(import_model(model), "wf", 1)
    with compile_network(model, "host") as network:
        got = network.run({"x": x}).outputs["y"].astype(int)
    assert np.abs(got - ReferenceEvaluator(model).run(None, {"x": x})[0].astype(int)).max() <= 1
