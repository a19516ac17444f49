# SPDX-License-Identifier: Apache-2.0
"""What stands between an operator and its QuantizeLinear, and what the evaluator then computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from helpers.integer_evaluator import evaluate
from helpers.qdq_operator import qdq_operator, scalar
from onnx import helper

Array = np.ndarray[Any, Any]
ONE = scalar(1.0), np.array(0, np.int8)


def tensor(values: Any, scale: float, zero_point: int = 0) -> tuple[Array, Array, Array]:
    return np.array(values, np.int8), scalar(scale), np.array(zero_point, np.int8)


def node(operator: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(operator, names, output.split(), **attributes)


def result_of(model: onnx.ModelProto) -> list[Any]:
    return evaluate(model, {}).quantised["q"].tolist()


# A convolution of x = [1, 2, 3] by w = 1: real values [0.5, 1, 1.5] at 0.5 * 1.
IMAGE = {"x": tensor([[[1, 2, 3]]], 0.5), "w": tensor([[[1]]], 1.0)}
CONV = node("Conv", "x w", "c")


def test_difference() -> None:
    """(3 - 1) * 0.5 - 5 * 0.25 = -0.25, divided by 0.125."""
    inputs = {"a": tensor([3], 0.5, 1), "b": tensor([5], 0.25)}
    assert result_of(qdq_operator([node("Sub", "a b")], inputs, (scalar(0.125), ONE[1]))) == [-2]


def test_product() -> None:
    """(3 - 1) * 5 = 10 at 0.5 * 0.25 / 0.5: 2.5 -> 2."""
    inputs = {"a": tensor([3], 0.5, 1), "b": tensor([5], 0.25)}
    assert result_of(qdq_operator([node("Mul", "a b")], inputs, (scalar(0.5), ONE[1]))) == [2]


@pytest.mark.parametrize(("slope", "expected"), [(0.25, [-2, 5]), (0.75, [-4, 5]), (1.5, [-9, 5])])
def test_leaky_relu(slope: float, expected: list[int]) -> None:
    """-6 times 1/4, 3/4 and 3/2 at equal scales; a slope above 1 is computed in float32."""
    model = qdq_operator([node("LeakyRelu", "x", alpha=slope)], {"x": tensor([-6, 5], 0.5)}, (scalar(0.5), ONE[1]))
    assert result_of(model) == expected
    assert evaluate(model, {}).by_float == ({"q"} if slope > 1 else frozenset())


@pytest.mark.parametrize(("slopes", "expected"), [([0.25, -0.5, 2.0], [-2, 3, -12]), ([0, 1, 300], [0, -6, -128])])
def test_slopes_of_channels(slopes: list[float], expected: list[int]) -> None:
    """-6 times each slope at equal scales; slopes from 256 are computed in float32."""
    operators, inputs = [node("PRelu", "x s")], {"x": tensor([[-6, -6, -6]], 0.5)}
    model = qdq_operator(operators, inputs, (scalar(0.5), ONE[1]), {"s": np.array(slopes, np.float32)})
    assert result_of(model) == [expected]
    assert evaluate(model, {}).by_float == ({"q"} if max(slopes) >= 256 else frozenset())


@pytest.mark.parametrize("keepdims", [0, 1])
def test_mean_over_spatial_dimensions(keepdims: int) -> None:
    """The sum 10 over 4."""
    operators = [node("ReduceMean", "x axes", keepdims=keepdims)]
    constants = {"axes": np.array([-1, 2])}
    found = result_of(qdq_operator(operators, {"x": tensor([[[[1, 2], [3, 4]]]], 1.0)}, ONE, constants))
    assert found == ([[[[2]]]] if keepdims else [[2]])


def test_product_and_its_float_reader_compute_apart() -> None:
    """5 times the float32 next to 0.1 is above 0.5 in integers, and equal to 0.5 in float32."""
    inputs = {"x": tensor([[1]], 0.1), "w": tensor([[5]], 1.0)}
    model = qdq_operator([node("MatMul", "x w")], inputs, (scalar(1.0), ONE[1]))
    assert result_of(model) == [[1]]
    assert evaluate(model, {}).by_float == frozenset()
    model.graph.node.append(node("Neg", "y", "other"))
    assert result_of(model) == [[0]]
    assert evaluate(model, {}).by_float == {"q"}


# 5 times the float32 next to 0.1, as above, and a float operator that reads another tensor too.
TENTH = {"x": tensor([[1]], 0.1), "w": tensor([[5]], 1.0)}


def test_activation_with_another_reader_computes_in_float32() -> None:
    operators = [node("MatMul", "x w", "p"), node("Relu", "p"), node("Neg", "y", "other")]
    assert result_of(qdq_operator(operators[:2], TENTH, ONE)) == [[1]]
    assert result_of(qdq_operator(operators, TENTH, ONE)) == [[0]]


def test_biased_product_with_another_reader_computes_in_float32() -> None:
    operators = [node("MatMul", "x w", "p"), node("Add", "p bias"), node("Neg", "p", "other")]
    constants = {"bias": np.zeros(1, np.float32)}
    assert result_of(qdq_operator(operators[:2], TENTH, ONE, constants)) == [[1]]
    assert result_of(qdq_operator(operators, TENTH, ONE, constants)) == [[0]]


def test_bias_of_a_product_of_two_activations_is_added_in_float32() -> None:
    """Only a constant weight takes a bias."""
    operators = [node("Identity", "w_q", "v_q"), node("DequantizeLinear", "v_q w_s w_z", "v")]
    operators += [node("MatMul", "x v", "p"), node("Add", "p bias")]
    constants = {"bias": np.zeros(1, np.float32)}
    assert result_of(qdq_operator(operators, TENTH, ONE, constants)) == [[0]]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (node("Reshape", "c shape"), [[0], [1], [2]]),
        (node("Transpose", "c", perm=[2, 0, 1]), [[[0]], [[1]], [[2]]]),
        (node("MaxPool", "c", kernel_shape=[2]), [[[1, 2]]]),
        (node("Pad", "c pads"), [[[0, 0, 1, 2]]]),
        (node("Pad", "c pads zero"), [[[0, 0, 1, 2]]]),
        (node("Resize", "c - scales"), [[[0, 0, 1, 1, 2, 2]]]),
        (node("Slice", "c begin end axis"), [[[1, 2]]]),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_copies_of_a_product_choose_among_its_quantised_values(operator: onnx.NodeProto, expected: Any) -> None:
    """[0.5, 1, 1.5] -> [0, 1, 2] at scale 1: a tie goes to the even neighbour."""
    constants = {
        "shape": np.array([3, 1]), "pads": np.array([0, 0, 1, 0, 0, 0]), "zero": scalar(0),
        "scales": np.array([1, 1, 2], np.float32), "begin": np.array([1]), "end": np.array([3]), "axis": np.array([2]),
    }  # fmt: skip
    found = evaluate(qdq_operator([CONV, operator], IMAGE, ONE, constants), {})
    assert found.quantised["q"].tolist() == expected
    assert found.by_float == frozenset()


def test_padding_with_another_number_is_computed_in_float32() -> None:
    constants = {"pads": np.array([0, 0, 1, 0, 0, 0]), "seven": scalar(7)}
    found = evaluate(qdq_operator([CONV, node("Pad", "c pads seven")], IMAGE, ONE, constants), {})
    assert found.quantised["q"].tolist() == [[[7, 0, 1, 2]]]
    assert found.by_float == {"q"}


def test_each_part_of_a_split() -> None:
    model = qdq_operator([node("Split", "x sizes", "first y", axis=0)], {"x": tensor([3, 5, 7], 0.5)}, ONE)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2]), "sizes"))
    model.graph.node.append(node("QuantizeLinear", "first y_s y_z", "p"))
    found = evaluate(model, {}).quantised
    assert (found["p"].tolist(), found["q"].tolist()) == ([2], [2, 4])


def test_padding_does_not_pass_the_bounds_before_it() -> None:
    """Clip to at least 1 leaves the zeros that are padded afterwards."""
    operators = [node("Clip", "x low", "c"), node("Pad", "c pads")]
    constants = {"low": scalar(1), "pads": np.array([1, 0])}
    assert result_of(qdq_operator(operators, {"x": tensor([-3, 4], 1.0)}, ONE, constants)) == [0, 1, 4]


def test_concat_of_a_product_and_a_tensor() -> None:
    operators = [CONV, node("Concat", "c x", axis=2)]
    found = evaluate(qdq_operator(operators, IMAGE, ONE), {})
    assert found.quantised["q"].tolist() == [[[0, 1, 2, 0, 1, 2]]]
    assert found.by_float == frozenset()


@pytest.mark.parametrize("shape", [(2, 1), (1, 2, 1), (), (1,)])
def test_bias_of_each_channel_that_an_add_has(shape: tuple[int, ...]) -> None:
    """Sums [1, 2] at 0.5; a bias of 0.6 is 1 in their scale: [2, 3] * 0.5 = [1, 1.5] -> [1, 2]."""
    inputs = {"x": tensor([[[1]]], 0.5), "w": tensor([[[1]], [[2]]], 1.0)}
    operators = [node("Conv", "x w", "c"), node("Add", "bias c")]
    found = evaluate(qdq_operator(operators, inputs, ONE, {"bias": np.full(shape, 0.6, np.float32)}), {})
    assert found.quantised["q"].reshape(-1).tolist() == [1, 2]
    assert found.by_float == (frozenset() if shape != (1,) else {"q"})


def test_addition_of_another_tensor_is_no_bias() -> None:
    """Along the width, not the channels: 0.5 + [0.6, 1.6] in float32."""
    inputs = {"x": tensor([[[1, 1]]], 0.5), "w": tensor([[[1]]], 1.0)}
    operators = [node("Conv", "x w", "c"), node("Add", "c bias")]
    constants = {"bias": np.array([0.6, 1.6], np.float32)}
    found = evaluate(qdq_operator(operators, inputs, ONE, constants), {})
    assert found.quantised["q"].tolist() == [[[1, 2]]]
    assert found.by_float == {"q"}


def two_steps() -> onnx.ModelProto:
    """q is a quantised sigmoid, r is q at half the scale."""
    model = qdq_operator([node("Sigmoid", "x")], {"x": tensor([0, 4], 0.5)}, (scalar(1 / 64), ONE[1]))
    model.graph.node.append(node("DequantizeLinear", "q y_s y_z", "s"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(scalar(1 / 128), "r_s"))
    model.graph.node.append(node("QuantizeLinear", "s r_s y_z", "r"))
    return model


def test_results_of_float_operators_are_named_and_may_be_given() -> None:
    found = evaluate(two_steps(), {})
    assert {name: array.tolist() for name, array in found.quantised.items()} == {"q": [32, 56], "r": [64, 112]}
    assert found.by_float == {"q"}
    other = evaluate(two_steps(), {}, given={"q": np.array([33, 56], np.int8)})
    assert other.quantised["r"].tolist() == [66, 112]
    assert other.by_float == {"q"}


def test_quantised_inputs_are_exact() -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in zip("sz", ONE, strict=True)]
    inputs = [helper.make_tensor_value_info("x", 1, [2])]
    graph = helper.make_graph(nodes, "input", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    found = evaluate(helper.make_model(graph), {"x": np.array([0.5, 1.5], np.float32)})
    assert found.quantised["q"].tolist() == [0, 2]
    assert found.by_float == frozenset()
