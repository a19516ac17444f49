# SPDX-License-Identifier: Apache-2.0
"""Weights that are far smaller than their bias: products of every kind keep both within int32."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.exact_onnxruntime import exact_session
from helpers.qdq_graphs import QdqBuilder

from vdla.compiler.graph import Graph
from vdla.compiler.graph.passes import fuse_qdq
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.quantise import quantise
from vdla.runtime.network.quantised_network import QuantisedNetwork

CHANNELS = np.array([1, 1e-5, 1e-8, 0])  # factors of the weights of four outputs
# Outputs of such different sizes share a scale here.
pytestmark = pytest.mark.filterwarnings("ignore::vdla.compiler.graph.quantise.QuantiseWarning")

CASES = {
    "1-D": ("Conv", (2, 3, 20), (4, 3, 3), 0, {}),
    "2-D": ("Conv", (1, 3, 9, 9), (4, 3, 3, 3), 0, {}),
    "3-D": ("Conv", (1, 3, 5, 5, 5), (4, 3, 2, 2, 2), 0, {}),
    "depthwise": ("Conv", (1, 4, 9, 9), (4, 1, 3, 3), 0, {"group": 4}),
    "grouped": ("Conv", (1, 4, 9, 9), (4, 2, 3, 3), 0, {"group": 2}),
    "transposed": ("ConvTranspose", (1, 3, 9, 9), (3, 4, 3, 3), 1, {}),
    "transposed and grouped": ("ConvTranspose", (1, 4, 9, 9), (4, 2, 3, 3), 1, {"group": 2}),
    "Gemm": ("Gemm", (5, 12), (12, 4), 1, {}),
    "Gemm of transposed weights": ("Gemm", (5, 12), (4, 12), 0, {"transB": 1}),
    "MatMul": ("MatMul", (5, 12), (12, 4), 1, {}),
}


def product(case: str, random: np.random.Generator, factors: np.ndarray, bias: np.ndarray) -> Graph:
    """y = op(x, w) + b; the weight of output i is `factors[i]` times normal values."""
    op, shape, weight, axis, options = CASES[case]
    b, kernel = QdqBuilder(), weight[2:] if "Conv" in op else ()
    sides = [1] * len(weight)
    sides[axis] = weight[axis]
    w = b.constant((random.standard_normal(weight) * factors[: weight[axis]].reshape(sides)).astype(np.float32), "w")
    x, c = b.input("x", shape, "float32"), b.constant(bias.astype(np.float32), "b")
    grown = 1 if op == "ConvTranspose" else -1
    result = (shape[0], 4, *(extent + grown * (k - 1) for extent, k in zip(shape[2:], kernel, strict=False)))
    if op == "MatMul":
        b.add("Add", b.add(op, x, w, shape=result), c, shape=result, result="y")
    else:
        b.add(op, x, w, c, shape=result, result="y", **options)
    return b.graph("y")


def calibrated(case: str, offset: float, factors: np.ndarray, **options: object) -> tuple[QuantisedNetwork, np.ndarray]:
    """The quantised product and its data, normal values around an offset."""
    random = np.random.default_rng(len(case))
    graph = product(case, random, factors, np.array([2, -3, 4, 5]))
    x = (random.standard_normal(CASES[case][1]) + offset).astype(np.float32)
    return quantise(graph, calibration=x, **options), x  # type: ignore[arg-type]


def steps(made: QuantisedNetwork, found: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The greatest error of each output, in steps of the result's scale."""
    exact = Evaluator(made.float_graph, prefer="numpy").run({"x": x})["y"]
    errors = np.abs(found.astype(np.float64) - exact) / made.parameters.activations["y"].scale
    return np.asarray(errors.max(axis=tuple(d for d in range(errors.ndim) if d != 1)))


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("offset", [0.0, 4.0])
@pytest.mark.parametrize("case", CASES)
def test_small_weights_keep_their_biases(case, offset, per_channel, tmp_path):
    """In integers, and in ONNX Runtime, which computes the saved model."""
    one_scale = not per_channel or case == "transposed and grouped"
    factors = np.full(4, 1e-8) if one_scale else CHANNELS
    made, x = calibrated(case, offset, factors, method="minmax", per_channel=per_channel)
    integer = fuse_qdq(made.graph)
    assert [node.op[:6] for node in integer.nodes] == ["Quanti", "vdla.Q", "Dequan"]
    assert (steps(made, Evaluator(integer, prefer="numpy").run({"x": x})["y"], x) < [3, 1, 1, 1]).all()
    made.save(tmp_path / "y.onnx")
    [found] = exact_session(str(tmp_path / "y.onnx")).run(None, {"x": x})
    assert (steps(made, found, x) < [3, 1, 1, 1]).all()


@pytest.mark.parametrize("bits", [3, 8])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_worst_sums_have_headroom(bits, offset):
    """Whatever the data, sums and biases stay below a quarter of int32's range and more."""
    made, _ = calibrated("2-D", offset, np.geomspace(1, 1e-9, 4), weight_bits={"y": bits})
    [node] = [node for node in fuse_qdq(made.graph).nodes if node.op == "vdla.QConv"]
    weight, bias = (fuse_qdq(made.graph).constants[name].astype(np.int64) for name in node.inputs[1:])
    zero_point = node.attributes["x_zero_point"]
    sums = np.abs(weight).sum(axis=(1, 2, 3)) * max(127 - zero_point, zero_point + 128) + np.abs(bias)
    assert sums.max() < 1.01 * 2**29
    assert sums[3] > 2**27


def test_only_outputs_that_need_it_are_raised():
    made, _ = calibrated("2-D", 0.0, np.array([1, 1e-8, 1, 1e-7]))
    assert made.parameters.weights["y"].raised == (1, 3)
    plain, _ = calibrated("2-D", 0.0, np.ones(4))
    assert plain.parameters.weights["y"].raised == ()
    assert (made.parameters.weights["y"].scale[[0, 2]] == plain.parameters.weights["y"].scale[[0, 2]]).all()


def test_weights_that_are_all_zero_have_a_scale_for_their_bias():
    """On wide data, the scale 1 would round the bias to 0."""
    graph = product("2-D", np.random.default_rng(0), np.zeros(4), np.array([0, 1, -2, 1e-9]))
    x = np.linspace(0, 1e6, 243, dtype=np.float32).reshape(CASES["2-D"][1])
    made = quantise(graph, calibration=x)
    found = Evaluator(fuse_qdq(made.graph), prefer="numpy").run({"x": x})["y"]
    np.testing.assert_allclose(found[0, :, 0, 0], [0, 1, -2, 0], atol=0.01)
    assert made.parameters.weights["y"].scale[0] == 1 and made.parameters.weights["y"].raised == ()
