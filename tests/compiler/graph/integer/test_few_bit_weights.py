# SPDX-License-Identifier: Apache-2.0
"""Weights of few bits with a bias of another scale against onnx.reference: only ties differ."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vdla.runtime.network.compile_network import compile_network

INPUTS, OUTPUTS = 6, 5
SHAPES = {"Conv": (OUTPUTS, INPUTS, 3, 3), "ConvTranspose": (INPUTS, OUTPUTS, 3, 3), "Gemm": (OUTPUTS, INPUTS)}


def layer(op: str, bits: int, steps: dict[str, float]) -> tuple[ModelProto, np.ndarray]:
    """A quantised layer; `steps` are the scales of x, w and y, and the step of the float bias."""
    rng = np.random.default_rng(bits)
    greatest = 2 ** (bits - 1) - 1
    constants = {
        "w": rng.integers(-greatest, greatest + 1, SHAPES[op]).astype(np.int8),
        "b": (rng.integers(-40, 40, OUTPUTS) * steps["b"]).astype(np.float32),
        "zero": np.int8(0),
        **{f"{name}_scale": np.float32(steps[name]) for name in "xwy"},
    }
    x = rng.integers(-128, 128, (2, INPUTS, 5, 5) if op != "Gemm" else (7, INPUTS)).astype(np.int8)
    options = {"transB": 1} if op == "Gemm" else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "zero"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "zero"], ["wf"]),
        helper.make_node(op, ["xf", "wf", "b"], ["yf"], **options),
        helper.make_node("QuantizeLinear", ["yf", "y_scale", "zero"], ["y"]),
    ]
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 3, x.shape)], [ValueInfoProto(name="y")], kept
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), x


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["host", "pynq_z1"])
@pytest.mark.parametrize("op", SHAPES)
@pytest.mark.parametrize(("bits", "bias", "result"), [(2, 0.037, 0.1), (2, 0.1, 0.13), (3, 0.071, 0.1), (4, 0.01, 0.1)])
def test_a_bias_finer_than_the_sums_is_kept(op: str, bits: int, bias: float, result: float, target: str) -> None:
    """Rounded to the steps of the sums, it moves results by up to two."""
    model, x = layer(op, bits, {"x": 0.5, "w": 0.5, "b": bias, "y": result})
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0].astype(int)
    with compile_network(model, target) as network:
        got = network.run({"x": x}).outputs["y"].astype(int)
    assert np.abs(got - wanted).max() <= 1
    assert (got != wanted).mean() <= 0.01


@pytest.mark.parametrize("bits", [2, 8])
def test_weights_stay_where_the_bias_is_of_the_sums(bits: int) -> None:
    model, _ = layer("Conv", bits, {"x": 0.5, "w": 0.5, "b": 0.25, "y": 0.1})
    weight = next(numpy_helper.to_array(item) for item in model.graph.initializer if item.name == "w")
    with compile_network(model, "pynq_z1") as network:
        packed = (np.int8, np.int16)  # as the dot product of the CPU reads them
        kept = [item.astype(int) for item in network.artifact.constants.values() if item.dtype in packed]
    assert max(np.abs(item).max() for item in kept) == np.abs(weight).max()
