# SPDX-License-Identifier: Apache-2.0
"""Single operators of QDQ and QLinear graphs, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from helpers.integer_evaluator import evaluate
from helpers.qdq_operator import qdq_operator, scalar
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
INT8_ZERO = np.array(0, np.int8)


def int8(*values: int, shape: tuple[int, ...] = (-1,)) -> Array:
    return np.array(values, np.int8).reshape(shape)


def result_of(model: onnx.ModelProto) -> Array:
    return evaluate(model, {}).quantised["q"]


def node(operator: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, ["y"], **attributes)


def tensor(values: Array, scale: float, zero_point: int = 0) -> tuple[Array, Array, Array]:
    return values, scalar(scale), np.array(zero_point, values.dtype)


def test_convolution_with_zero_points_channels_and_bias() -> None:
    """x - zx = [1, 2, 0]; channel 0: w = [1, 2], sums [0+2, 1+4, 2+0] with padding in front.

    Plus bias 1: [3, 6, 3]; s = 0.5 * 0.5 / 0.5 = 0.5: [1.5, 3, 1.5] -> [2, 3, 2], plus 5.
    Channel 1: w = [-1, 1], sums [1, 1, -2], bias -1: [0, 0, -3]; s = 0.5 * 1 / 0.5 = 1, plus 5.
    """
    weights = int8(1, 2, -1, 1, shape=(2, 1, 2)), np.array([0.5, 1.0], np.float32), int8(0, 0)
    bias = np.array([1, -1], np.int32), np.array([0.25, 0.5], np.float32), np.zeros(2, np.int32)
    model = qdq_operator(
        [node("Conv", "x", "w", "b", pads=[1, 0])],
        {"x": tensor(int8(4, 5, 3, shape=(1, 1, 3)), 0.5, 3), "w": weights, "b": bias},
        (scalar(0.5), np.array(5, np.int8)),
        axes={"w": 0, "b": 0},
    )
    assert result_of(model).tolist() == [[[7, 8, 7], [5, 5, 2]]]


def test_uint8_saturates() -> None:
    """(200 - 128) * 4 = 288 -> 255; (100 - 128) * 4 = -112 -> 0 with zero point 10."""
    x = np.array([[200, 100]], np.uint8)
    model = qdq_operator(
        [node("Gemm", "x", "w", transB=1)],
        {"x": tensor(x, 1.0, 128), "w": tensor(int8(4, 0, 0, 4, shape=(2, 2)), 1.0)},
        (scalar(1.0), np.array(10, np.uint8)),
    )
    assert result_of(model).tolist() == [[255, 0]]


def test_relu_and_clip_are_bounds() -> None:
    """x * 2 at scale 1 and zero point -3: [-8, 4, 14]; bounds 0 and 6 are -3 and 3."""
    operators = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Clip", ["r", "low", "high"], ["y"]),
    ]
    constants = {"low": scalar(-100), "high": scalar(6)}
    inputs = {"x": tensor(int8(-4, 2, 7), 2.0)}
    model = qdq_operator(operators, inputs, (scalar(1.0), np.array(-3, np.int8)), constants)
    assert result_of(model).tolist() == [-3, 1, 3]


def test_bounds_between_two_integers_round_as_values_do() -> None:
    """A bound of 2.5 at scale 1 is 2."""
    operators = [node("Clip", "x", "", "high")]
    model = qdq_operator(operators, {"x": tensor(int8(1, 2, 3), 1.0)}, (scalar(1), INT8_ZERO), {"high": scalar(2.5)})
    assert result_of(model).tolist() == [1, 2, 2]


def test_residual_sum() -> None:
    """(3 - 1) * 0.5 + 5 * 0.25 = 2.25 and (4 - 1) * 0.5 + 0.25 = 1.75, divided by 0.5: ties."""
    inputs = {"a": tensor(int8(3, 4), 0.5, 1), "b": tensor(int8(5, 1), 0.25)}
    assert result_of(qdq_operator([node("Add", "a", "b")], inputs, (scalar(0.5), INT8_ZERO))).tolist() == [4, 4]


def test_average_pool_leaves_padding_out_or_counts_it() -> None:
    """Windows [0, 3], [3, 4], [4, 7]; x - zx = [2, 3, 6] with a zero point of 1."""
    inputs = {"x": tensor(int8(3, 4, 7, shape=(1, 1, 3)), 1.0, 1)}
    pool = {"kernel_shape": [2], "pads": [1, 0]}
    result = scalar(1.0), INT8_ZERO
    apart = qdq_operator([node("AveragePool", "x", **pool)], inputs, result)
    counted = qdq_operator([node("AveragePool", "x", **pool, count_include_pad=1)], inputs, result)
    assert result_of(apart).tolist() == [[[2, 2, 4]]]
    assert result_of(counted).tolist() == [[[1, 2, 4]]]


def test_global_average_pool() -> None:
    """Sums 10 and -6 over 4 pixels: 2.5 -> 2 and -1.5 -> -2."""
    x = int8(1, 2, 3, 4, 0, 0, -3, -3, shape=(1, 2, 2, 2))
    model = qdq_operator([node("GlobalAveragePool", "x")], {"x": tensor(x, 1.0)}, (scalar(1.0), INT8_ZERO))
    assert result_of(model).reshape(-1).tolist() == [2, -2]


def test_max_pool_never_selects_padding() -> None:
    inputs = {"x": tensor(int8(-3, -5, shape=(1, 1, 2)), 1.0)}
    operators = [node("MaxPool", "x", kernel_shape=[2], pads=[1, 1])]
    assert result_of(qdq_operator(operators, inputs, (scalar(1.0), INT8_ZERO))).tolist() == [[[-3, -3, -5]]]


def test_concat_rescales_each_operand() -> None:
    """3 * 0.5 = 1.5 -> 2; (4 - 2) * 1 = 2; zero point 1 each."""
    inputs = {"a": tensor(int8(3), 0.5), "b": tensor(int8(4), 1.0, 2)}
    model = qdq_operator([node("Concat", "a", "b", axis=0)], inputs, (scalar(1.0), np.array(1, np.int8)))
    assert result_of(model).tolist() == [3, 3]


def test_copies_and_requantisation() -> None:
    """5 * 0.5 = 2.5 -> 2; 7 * 0.5 = 3.5 -> 4."""
    inputs, result = {"x": tensor(int8(5, 7, shape=(1, 2)), 0.5)}, (scalar(1.0), INT8_ZERO)
    transposed = qdq_operator([node("Transpose", "x", perm=[1, 0])], inputs, result)
    reshaped = qdq_operator([node("Reshape", "x", "shape")], inputs, result, {"shape": np.array([2])})
    rescaled = qdq_operator([node("Identity", "x")], inputs, result)
    assert [result_of(model).tolist() for model in (transposed, reshaped, rescaled)] == [[[2], [4]], [2, 4], [[2, 4]]]


def test_product_of_two_activations_in_batches() -> None:
    """[1, 2] . [3, 4] = 11 and [-1, 0] . [5, 6] = -5 at 0.5 * 0.5 / 0.5."""
    inputs = {
        "a": tensor(int8(1, 2, -1, 0, shape=(2, 1, 2)), 0.5),
        "b": tensor(int8(3, 4, 5, 6, shape=(2, 2, 1)), 0.5),
    }
    model = qdq_operator([node("MatMul", "a", "b")], inputs, (scalar(0.5), INT8_ZERO))
    assert result_of(model).reshape(-1).tolist() == [6, -2]


@pytest.mark.parametrize("first", ["product", "bias"])
def test_product_and_vector_are_one_operator(first: str) -> None:
    """3 * 1 = 3 at 0.25, bias 0.3 / 0.25 = 1.2 -> 1: sum 4; s = 0.25: 1."""
    operands = ["product", "bias"] if first == "product" else ["bias", "product"]
    operators = [helper.make_node("MatMul", ["a", "b"], ["product"]), node("Add", *operands)]
    inputs = {"a": tensor(int8(3, shape=(1, 1)), 0.5), "b": tensor(int8(1, shape=(1, 1)), 0.5)}
    constants = {"bias": np.array([0.3], np.float32)}
    assert result_of(qdq_operator(operators, inputs, (scalar(1.0), INT8_ZERO), constants)).tolist() == [[1]]


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1.0), ("int32", 0.125), ("int8", 0.125)])
def test_other_biases_are_quantised_to_the_scale_of_the_sums(dtype: str, scale: float) -> None:
    """A bias of 3 / 8 at 0.25 is 1.5 -> 2: sum 1 + 2 = 3; s = 0.25 / 0.25."""
    w = tensor(int8(1, shape=(1, 1, 1)), 0.5)
    inputs = {"x": tensor(int8(1, shape=(1, 1, 1)), 0.5), "w": w}
    constants = {}
    if dtype == "float32":
        constants["b"] = np.array([0.375], np.float32)
    else:
        inputs["b"] = tensor(np.array([3], dtype), scale)
    model = qdq_operator([node("Conv", "x", "w", "b")], inputs, (scalar(0.25), INT8_ZERO), constants)
    assert result_of(model).tolist() == [[[3]]]


def test_other_operators_compute_in_float32() -> None:
    """sigmoid(0) = 0.5, sigmoid(2) = 0.881 at scale 1 / 256 and zero point -128."""
    inputs = {"x": tensor(int8(0, 4), 0.5)}
    model = qdq_operator([node("Sigmoid", "x")], inputs, (scalar(1 / 256), np.array(-128, np.int8)))
    assert result_of(model).tolist() == [0, 97]


def test_results_with_a_scale_for_each_channel() -> None:
    inputs = {"x": tensor(int8(2, 3, shape=(1, 2)), 0.5)}
    result = np.array([0.5, 1.0], np.float32), int8(0, 1)
    assert result_of(qdq_operator([node("Identity", "x")], inputs, result)).tolist() == [[2, 3]]


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_types_of_16_bits(dtype: str) -> None:
    inputs = {"x": tensor(np.array([30000, 100], dtype), 1.0)}
    model = qdq_operator([node("Add", "x", "x")], inputs, (scalar(1.5), np.array(7, dtype)))
    assert result_of(model).tolist() == [min(40007, np.iinfo(dtype).max), 140]


def test_weights_of_four_bits() -> None:
    inputs = {"x": tensor(int8(1, 2, shape=(1, 2)), 1.0)}
    model = qdq_operator([node("MatMul", "x", "w")], inputs, (scalar(1.0), INT8_ZERO))
    values = numpy_helper.from_array(np.array([[7], [-8]], np.int8), "w_q")
    model.graph.initializer.append(
        helper.make_tensor("w_q", onnx.TensorProto.INT4, [2, 1], numpy_helper.to_array(values).reshape(-1))
    )
    model.graph.initializer.append(numpy_helper.from_array(scalar(1.0), "w_s"))
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["w_q", "w_s"], ["w"]))
    assert result_of(model).tolist() == [[-9]]


def test_clip_before_opset_11_has_attributes() -> None:
    inputs = {"x": tensor(int8(-5, 5), 1.0)}
    model = qdq_operator([node("Clip", "x", min=-2.0, max=3.0)], inputs, (scalar(1.0), INT8_ZERO), opset=10)
    assert result_of(model).tolist() == [-2, 3]


def qlinear(operator: str, operands: dict[str, Array], **attributes: Any) -> onnx.ModelProto:
    constants = [numpy_helper.from_array(array, name) for name, array in operands.items()]
    nodes = [helper.make_node(operator, list(operands), ["q"], **attributes)]
    graph = helper.make_graph(nodes, "operator", [], [helper.make_empty_tensor_value_info("q")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def test_qlinear_conv() -> None:
    """(4 - 3) * [1, 2] + [1, 0] = [2, 2]; s = [0.5, 1]: [1, 2] plus 5."""
    operands = {
        "x": int8(4, shape=(1, 1, 1)), "sx": scalar(0.5), "zx": np.array(3, np.int8),
        "w": int8(1, 2, shape=(2, 1, 1)), "sw": np.array([0.5, 1], np.float32), "zw": int8(0, 0),
        "sy": scalar(0.5), "zy": np.array(5, np.int8), "b": np.array([1, 0], np.int32),
    }  # fmt: skip
    assert result_of(qlinear("QLinearConv", operands)).tolist() == [[[6], [7]]]


def test_qlinear_matmul() -> None:
    """[2, 3] . [[1, 0], [0, 1]] with scales of columns 0.5 and 1: [1, 3] minus 1."""
    operands = {
        "a": int8(2, 3, shape=(1, 2)), "sa": scalar(1), "za": INT8_ZERO,
        "b": int8(1, 0, 0, 1, shape=(2, 2)), "sb": np.array([0.5, 1], np.float32), "zb": int8(0, 0),
        "sy": scalar(1), "zy": np.array(-1, np.int8),
    }  # fmt: skip
    assert result_of(qlinear("QLinearMatMul", operands)).tolist() == [[0, 2]]


def test_every_tensor_of_few_bits_is_returned_and_no_other() -> None:
    """Results of QuantizeLinear and of copies of integers; no constants, no float tensors."""
    model = qdq_operator([node("Relu", "x")], {"x": tensor(int8(1, -1), 1.0)}, (scalar(1.0), INT8_ZERO))
    model.graph.node.append(helper.make_node("Identity", ["q"], ["copy"]))
    model.graph.node.append(helper.make_node("DequantizeLinear", ["copy", "y_s"], ["real"]))
    model.graph.output.append(helper.make_empty_tensor_value_info("real"))
    found = evaluate(model, {})
    assert {name: array.tolist() for name, array in found.quantised.items()} == {"q": [1, 0], "copy": [1, 0]}
    assert found.outputs["real"].dtype == np.float32
    assert found.outputs["real"].tolist() == [1.0, 0.0]
