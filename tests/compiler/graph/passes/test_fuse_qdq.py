# SPDX-License-Identifier: Apache-2.0
"""The pass to integer operators: what it makes, what it leaves and why, and that values stay."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from helpers.qdq_graphs import QdqBuilder, run

from vdla.compiler.graph import Graph
from vdla.compiler.graph.passes import explain_fusion, fuse_qdq

RANDOM = np.random.default_rng(3)
IMAGE = (1, 4, 6, 6)


def int8(*shape: int) -> np.ndarray:
    return RANDOM.integers(-128, 127, shape, np.int8, endpoint=True)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def weight(b: QdqBuilder, shape: tuple[int, ...], axis: int = 0, zero_point: int = 0, dtype: str = "int8") -> str:
    info = np.iinfo(dtype)
    values = RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)
    return b.dequantise(b.constant(values), RANDOM.uniform(0.001, 0.01, shape[axis]), zero_point, axis)


def convolution(b: QdqBuilder, dtype: str = "int8", bias: bool = True) -> str:
    """v = Conv(DQ(x)) of 4 to 5 channels."""
    x = b.dequantise(b.input("x", IMAGE, dtype), 0.02, 3)
    more = (b.constant(RANDOM.standard_normal(5).astype(np.float32)),) if bias else ()
    return b.add("Conv", x, weight(b, (5, 4, 3, 3)), *more, shape=(1, 5, 6, 6), pads=(1, 1, 1, 1), result="v")


# --- products -------------------------------------------------------------------------------------


def test_convolution_with_relu_and_clip():
    b = QdqBuilder()
    relu = b.add("Relu", convolution(b))
    clip = b.add("Clip", relu, b.constant(np.float32(-1)), b.constant(np.float32(1.5)))
    graph = fuse_qdq(b.graph(b.quantise(clip, 0.05, -20)))
    [node] = graph.nodes
    assert node.op == "vdla.QConv" and node.outputs == ("y",) and node.inputs[0] == "x"
    assert {key: node.attributes[key] for key in ("x_zero_point", "y_zero_point", "low", "high", "group")} == {
        "x_zero_point": 3, "y_zero_point": -20, "low": -20, "high": 10, "group": 1,
    }  # fmt: skip
    made, bias = (graph.constants[name] for name in node.inputs[1:])
    assert (made.dtype, bias.dtype) == (np.int8, np.int32)


def test_factors_and_bias_of_a_convolution_are_exact_float32():
    b = QdqBuilder()
    before = b.graph(b.quantise(convolution(b), 0.05))
    [node] = fuse_qdq(before).nodes
    scales = next(v for v in before.constants.values() if v.shape == (5,) and (v > 0).all())
    sums = np.float32(0.02) * scales
    factors = np.ldexp(node.attributes["multiplier"].astype(float), -node.attributes["shift"])
    np.testing.assert_array_equal(factors, (sums / np.float32(0.05)).astype(float))
    real = next(v for v in before.constants.values() if v.shape == (5,) and (v < 0).any())
    graph = fuse_qdq(before)
    np.testing.assert_array_equal(graph.constants[node.inputs[2]], np.rint(real / sums))


def naive_conv(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, factors: list[Fraction]) -> np.ndarray:
    """Element by element, in Python integers and fractions."""
    padded = np.pad(x.astype(int) - 3, ((0, 0), (0, 0), (1, 1), (1, 1)))
    result = np.zeros((1, 5, 6, 6), int)
    for c, h, w in np.ndindex(5, 6, 6):
        total = int((padded[0, :, h : h + 3, w : w + 3] * weights[c].astype(int)).sum() + bias[c])
        result[0, c, h, w] = min(max(round(total * factors[c]) - 7, -128), 127)
    return result


def test_convolution_against_fractions():
    b = QdqBuilder()
    graph = fuse_qdq(b.graph(b.quantise(convolution(b), 0.3, -7)))
    [node] = graph.nodes
    x = int8(*IMAGE)
    factors = [
        Fraction(int(m), 1 << int(s))
        for m, s in zip(node.attributes["multiplier"], node.attributes["shift"], strict=True)
    ]
    wanted = naive_conv(x, *(graph.constants[name] for name in node.inputs[1:]), factors)
    assert np.unique(wanted).size > 30
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], wanted)


def test_uint8_becomes_int8_inside():
    b = QdqBuilder()
    graph = fuse_qdq(b.graph(b.quantise(convolution(b, "uint8"), 0.05, 100, "uint8")))
    assert operators(graph) == ["vdla.ToInt8", "vdla.QConv", "vdla.ToUint8"]
    assert graph.nodes[1].attributes["x_zero_point"] == 3 - 128
    assert graph.nodes[1].attributes["y_zero_point"] == 100 - 128
    assert graph.tensor("y").dtype == "uint8"


def test_gemm_and_matmul_become_dense():
    b = QdqBuilder()
    x = b.dequantise(b.input("x", (2, 8)), 0.02, 3)
    first = b.quantise(b.add("Gemm", x, weight(b, (8, 6), 1), b.constant(np.ones(6, np.float32)), shape=(2, 6)), 0.1)
    second = b.add("MatMul", b.dequantise(first, 0.1), weight(b, (6, 5), 1), shape=(2, 5))
    biased = b.add("Add", b.constant(np.ones(5, np.float32)), second, shape=(2, 5))
    graph = fuse_qdq(b.graph(b.quantise(b.add("Relu", biased), 0.05, -128, result="z")))
    assert operators(graph) == ["vdla.QDense", "vdla.QDense"]
    assert [graph.constants[node.inputs[1]].shape for node in graph.nodes] == [(6, 8), (5, 6)]
    assert graph.constants[graph.nodes[1].inputs[2]].any()
    transposed = QdqBuilder()
    x = transposed.dequantise(transposed.input("x", (2, 8)), 0.02)
    turned = transposed.add("Transpose", weight(transposed, (5, 8)), shape=(8, 5), perm=(1, 0))
    made = transposed.add("MatMul", x, turned, shape=(2, 5))
    [node] = fuse_qdq(transposed.graph(transposed.quantise(made, 0.1))).nodes
    assert node.op == "vdla.QDense"


@pytest.mark.parametrize(
    ("bias", "dtype"), [(2**31 - 1, np.int32), (-(2**31), np.int32), (2**31 - 20000, np.int32), (5e5, np.float32)]
)
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "Gemm", "MatMul"])
def test_biases_with_which_sums_could_wrap_stay_float(op, bias, dtype):
    """Of 100 * 227 and the bias; scales are powers of two, and the float results the right ones."""
    b, image = QdqBuilder(), "Conv" in op
    x = b.dequantise(b.input("x", (2, 1, 1, 1) if image else (2, 1)), 2.0**-6, -100)
    w = b.dequantise(b.constant(np.full((1, 1, 1, 1) if image else (1, 1), 100, np.int8)), 2.0**-7)
    added = b.constant(np.array([bias], dtype))
    if dtype == np.int32:
        added = b.dequantise(added, 2.0**-13)
    product = b.add("Add", b.add(op, x, w), added) if op == "MatMul" else b.add(op, x, w, added)
    explained = explain_fusion(b.graph(b.quantise(product, 2.0**12)))
    [reason] = explained.reasons.values()
    assert re.fullmatch(r"have sums within int32, got up to 2147\d{6}", reason)
    data = np.array([127, -128], np.int8).reshape(explained.graph.tensor("x").extents)
    exact = (100 * (data + 100.0) + bias * (1 if dtype == np.int32 else 2**13)) / 2**25
    np.testing.assert_array_equal(run(explained.graph, {"x": data})["y"], np.clip(np.rint(exact), -128, 127))


def test_biases_with_which_no_sum_wraps_become_integers():
    b = QdqBuilder()
    x = b.dequantise(b.input("x", (2, 1, 1, 1)), 2.0**-6, -100)
    w = b.dequantise(b.constant(np.full((1, 1, 1, 1), 100, np.int8)), 2.0**-7)
    bias = b.dequantise(b.constant(np.array([2**31 - 2 - 100 * 227], np.int32)), 2.0**-13)
    assert operators(fuse_qdq(b.graph(b.quantise(b.add("Conv", x, w, bias), 2.0**12)))) == ["vdla.QConv"]


def test_products_of_activations_whose_sums_could_wrap_stay_float():
    b, depth = QdqBuilder(), 2**31 // 128**2
    a, c = b.dequantise(b.input("a", (1, depth)), 0.5), b.dequantise(b.input("c", (depth, 1)), 0.5)
    reasons = explain_fusion(b.graph(b.quantise(b.add("MatMul", a, c, shape=(1, 1)), 2.0))).reasons
    assert list(reasons.values()) == ["have sums within int32, got up to 2147483648"]


def test_product_of_two_activations():
    b = QdqBuilder()
    a, c = b.dequantise(b.input("a", (2, 3, 4)), 0.5, 1), b.dequantise(b.input("c", (2, 4, 5)), 0.25, 2)
    graph = fuse_qdq(b.graph(b.quantise(b.add("MatMul", a, c, shape=(2, 3, 5)), 2.0)))
    [node] = graph.nodes
    assert node.op == "vdla.QMatMul"
    assert node.attributes["multiplier"] / 2.0 ** node.attributes["shift"] == 0.0625
    x, y = int8(2, 3, 4), int8(2, 4, 5)
    real = np.matmul((x - 1.0) * 0.5, (y - 2.0) * 0.25) / 2
    np.testing.assert_array_equal(run(graph, {"a": x, "c": y})["y"], np.clip(np.rint(real), -128, 127))


def test_transposed_convolution_and_its_scales():
    b = QdqBuilder()
    x = b.dequantise(b.input("x", IMAGE), 0.02)
    made = b.add("ConvTranspose", x, weight(b, (4, 3, 2, 2), 1), shape=(1, 3, 12, 12), strides=(2, 2))
    [node] = fuse_qdq(b.graph(b.quantise(made, 0.1))).nodes
    assert node.op == "vdla.QConvTranspose" and len(node.attributes["multiplier"]) == 3


def test_qlinear_operators():
    b = QdqBuilder()
    x = b.input("x", IMAGE, "uint8")
    number = lambda value, dtype: b.constant(np.array(value, dtype))  # noqa: E731
    operands = [number(0.02, "float32"), number(3, "uint8"), b.constant(int8(5, 4, 1, 1)), number(0.01, "float32")]
    operands += [
        number(0, "int8"),
        number(0.1, "float32"),
        number(9, "uint8"),
        b.constant(np.arange(5, dtype=np.int32)),
    ]
    made = b.add("QLinearConv", x, *operands, shape=(1, 5, 6, 6), dtype="uint8")
    graph = fuse_qdq(b.graph(made))
    assert operators(graph) == ["vdla.ToInt8", "vdla.QConv", "vdla.ToUint8"]
    np.testing.assert_array_equal(graph.constants[graph.nodes[1].inputs[2]], np.arange(5))


# --- element by element ---------------------------------------------------------------------------


@pytest.mark.parametrize(("scales", "factors"), [((0.1, 0.1), (1, 1)), ((0.3, 0.1), (3, 1)), ((0.1, 0.15), (2, 3))])
def test_residual_factors_are_the_simplest_ratio(scales, factors):
    b = QdqBuilder()
    a, c = (b.dequantise(b.input(name, IMAGE), scale, 2) for name, scale in zip("ac", scales, strict=True))
    graph = fuse_qdq(b.graph(b.quantise(b.add("Relu", b.add("Add", a, c)), 0.2, 5)))
    [node] = graph.nodes
    found = node.attributes["factors"]
    assert node.op == "vdla.QAdd" and node.attributes["low"] == 5
    assert Fraction(*found).limit_denominator(100) == Fraction(*factors)
    real = sum(x * (v - 2.0) for x, v in zip(scales, (100, 27), strict=True)) / 0.2
    inputs = {"a": np.full(IMAGE, 100, np.int8), "c": np.full(IMAGE, 27, np.int8)}
    assert run(graph, inputs)["y"].flat[0] == np.clip(np.rint(round(real, 9)) + 5, 5, 127)


def test_equal_scales_need_no_ratio():
    b = QdqBuilder()
    a, c = (b.dequantise(b.input(name, IMAGE), 0.1) for name in "ac")
    [node] = fuse_qdq(b.graph(b.quantise(b.add("Sub", a, c), 0.2))).nodes
    assert node.attributes["factors"] == (1, -1)


def test_products_rescalings_and_leaky_relu():
    b = QdqBuilder()
    x = b.input("x", IMAGE)
    product = b.quantise(b.add("Mul", b.dequantise(x, 0.5), b.dequantise(x, 0.5)), 8.0, result="p")
    leaky = b.quantise(b.add("LeakyRelu", b.dequantise(product, 8.0), alpha=0.2), 4.0, 1, result="l")
    clipped = b.quantise(b.add("Relu", b.dequantise(leaky, 4.0, 1)), 2.0, -128, result="r")
    graph = fuse_qdq(b.graph(clipped))
    assert operators(graph) == ["vdla.QMul", "vdla.QLeakyRelu", "vdla.QRescale"]
    assert graph.nodes[1].attributes["factors"] == (5, 1)
    assert graph.nodes[2].attributes["low"] == -128


def test_function_of_one_value_becomes_a_table():
    b = QdqBuilder()
    real = b.dequantise(b.input("x", IMAGE), 0.05, 10)
    silu = b.add("Mul", real, b.add("Sigmoid", real))
    before = b.graph(b.quantise(silu, 0.02, -100))
    functions = {"Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Mul": np.multiply}
    graph = fuse_qdq(before, lambda node, inputs: [functions[node.op](*inputs)])
    assert operators(graph) == ["vdla.QTable"]
    x = int8(*IMAGE)
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], run(before, {"x": x})["y"])
    assert operators(fuse_qdq(before)) == operators(before)


# --- pools and movements --------------------------------------------------------------------------


def test_pools():
    b = QdqBuilder()
    x = b.dequantise(b.input("x", IMAGE), 0.1, 3)
    largest = b.add("MaxPool", x, shape=(1, 4, 3, 3), kernel_shape=(2, 2), strides=(2, 2))
    rescaled = b.dequantise(b.quantise(largest, 0.3, -5, result="m"), 0.3, -5)
    mean = b.add("GlobalAveragePool", rescaled, shape=(1, 4, 1, 1))
    graph = fuse_qdq(b.graph(b.quantise(mean, 0.2)))
    assert operators(graph) == ["vdla.QMaxPool", "vdla.QAveragePool"]
    assert graph.nodes[0].attributes["x_zero_point"] == 3 and graph.nodes[0].attributes["y_zero_point"] == -5
    assert graph.nodes[1].attributes["kernel_shape"] == (3, 3)


def test_pool_of_equal_scales_keeps_its_elements():
    b = QdqBuilder()
    pool = b.add(
        "MaxPool", b.dequantise(b.input("x", IMAGE), 0.1, 3), shape=(1, 4, 3, 3), kernel_shape=(2, 2), strides=(2, 2)
    )
    graph = fuse_qdq(b.graph(b.quantise(pool, 0.1, 3)))
    x = int8(*IMAGE)
    wanted = x.reshape(1, 4, 3, 2, 3, 2).max(axis=(3, 5))
    np.testing.assert_array_equal(run(graph, {"x": x})[graph.outputs[0]], wanted)


def test_mean_over_images_without_kept_dimensions():
    b = QdqBuilder()
    axes = b.constant(np.array([2, 3]))
    mean = b.add("ReduceMean", b.dequantise(b.input("x", IMAGE), 0.1), axes, shape=(1, 4), keepdims=0)
    graph = fuse_qdq(b.graph(b.quantise(mean, 0.1)))
    assert operators(graph) == ["vdla.QAveragePool", "Flatten"]


def test_movements_work_on_integers():
    b = QdqBuilder()
    x = b.dequantise(b.input("x", IMAGE), 0.1, 3)
    rows = b.add("Reshape", x, b.constant(np.array([4, 36])), shape=(4, 36))
    turned = b.add("Transpose", rows, shape=(36, 4), perm=(1, 0))
    graph = fuse_qdq(b.graph(b.quantise(turned, 0.2, 1)))
    assert operators(graph) == ["Reshape", "Transpose", "vdla.QRescale"]
    assert {graph.tensor(node.outputs[0]).dtype for node in graph.nodes} == {"int8"}


def padded(value: float) -> tuple[Graph, Graph]:
    """Padding of numbers in tenths, before and after."""
    b = QdqBuilder()
    x = b.dequantise(b.input("x", IMAGE), 0.1, 3)
    ends, constant = b.constant(np.array([0, 0, 1, 1, 0, 0, 0, 2])), b.constant(np.array(value, np.float32))
    wide = b.add("Pad", x, ends, constant, shape=(1, 4, 7, 9), mode="constant")
    before = b.graph(b.quantise(wide, 0.1, 3))
    return before, fuse_qdq(before)


@pytest.mark.parametrize("value", [0.0, 0.5, -1.0, np.float32(0.1) * 124])
def test_padding_that_an_integer_stands_for_works_on_integers(value):
    before, graph = padded(value)
    assert operators(graph) == ["Pad", "Identity"]
    x = int8(*IMAGE)
    np.testing.assert_array_equal(run(graph, {"x": x})[graph.outputs[0]], run(before, {"x": x})[before.outputs[0]])


@pytest.mark.parametrize("value", [0.55, 12.5, np.inf, np.nan])
def test_padding_that_no_integer_stands_for_stays(value):
    before, graph = padded(value)
    assert operators(graph) == operators(before)


@pytest.mark.parametrize("value", [0.55, 12.6, -np.inf])
def test_quantisation_moves_before_any_padding(value):
    b = QdqBuilder()
    ends, constant = b.constant(np.array([0, 0, 1, 1, 0, 0, 0, 2])), b.constant(np.array(value, np.float32))
    before = b.graph(b.quantise(b.add("Pad", convolution(b), ends, constant, shape=(1, 5, 7, 9)), 0.1, 3))
    graph = fuse_qdq(before)
    assert operators(graph) == ["vdla.QConv", "Pad"]
    padding = graph.constant(graph.nodes[-1].inputs[2])
    assert padding is not None and padding.dtype == np.int8
    assert padding == np.clip(np.rint(np.float32(value) / np.float32(0.1)) + 3, -128, 127)


def test_quantisation_moves_before_movements_and_concat():
    b = QdqBuilder()
    total = convolution(b)
    other = b.dequantise(b.input("z", (1, 2, 6, 6)), 0.1)
    joined = b.add("Concat", total, other, shape=(1, 7, 6, 6), axis=1)
    flat = b.add("Flatten", joined, shape=(1, 252), axis=1)
    graph = fuse_qdq(b.graph(b.quantise(flat, 0.1)))
    assert sorted(operators(graph)) == ["Concat", "Flatten", "vdla.QConv"]


# --- what stays -----------------------------------------------------------------------------------


def reason(b: QdqBuilder, real: str) -> str:
    found = explain_fusion(b.graph(b.quantise(real, 0.1, result="y")))
    assert not any(node.op.startswith("vdla.Q") for node in found.graph.nodes)
    return found.reasons[real]


def test_reasons():
    b = QdqBuilder()
    x = b.dequantise(b.input("x", IMAGE), 0.1)
    wide = b.dequantise(b.constant(np.full((5, 4, 1, 1), 256, np.uint16)), np.full(5, 0.1), 0, 0)
    real = b.add("Conv", x, wide, shape=(1, 5, 6, 6))
    assert reason(b, real) == "have a weight of at most 8 bits, got uint16"
    b = QdqBuilder()
    real = b.add("Softmax", b.dequantise(b.input("x", (2, 8)), 0.1))
    assert reason(b, real) == "be an operator of integers, got Softmax"
    b = QdqBuilder()
    real = b.add("Add", b.dequantise(b.input("x", (2, 8)), 0.1), b.input("f", (2, 8), "float32"))
    assert reason(b, real) == "read quantised values, got f"
    b = QdqBuilder()
    x = b.dequantise(b.input("x", (2, 8)), 0.1)
    real = b.add("Gemm", x, weight(b, (8, 4), 1), shape=(2, 4), alpha=0.5)
    assert reason(b, real) == "have an alpha and a beta of 1"
    b = QdqBuilder()
    real = b.add("MatMul", x := b.dequantise(b.input("x", (8, 8), "int16"), 0.1), x)
    assert reason(b, real) == "read activations of 8 bits, got int16 for v0"


def test_float_result_that_is_read_twice_stays():
    b = QdqBuilder()
    total = convolution(b)
    found = explain_fusion(b.graph(b.quantise(total, 0.1), total))
    assert operators(found.graph)[-2:] == ["Conv", "QuantizeLinear"]
    assert found.reasons == {"v": "have a float result that only a QuantizeLinear reads, got 2 readers"}


def test_graph_without_quantisation_stays_as_it_is():
    b = QdqBuilder()
    graph = b.graph(b.add("Relu", b.input("x", (2,), "float32")))
    assert fuse_qdq(graph) is graph
