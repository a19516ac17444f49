# SPDX-License-Identifier: Apache-2.0
"""Exact sums against ONNX's reference operators in float64, and against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.integer_evaluator.nodes import run_node
from helpers.integer_evaluator.sums import (
    convolution,
    matrix_product,
    transposed_convolution,
    window_maxima,
    window_sums,
)
from helpers.integer_evaluator.windows import counts, window
from helpers.quantiser.graphs import session
from onnx import helper

OPSETS = {"": 22}
Array = np.ndarray[Any, Any]


def reference(operator: str, *operands: Array, **attributes: Any) -> Array:
    names = [f"x{at}" for at in range(len(operands))]
    node = helper.make_node(operator, names, ["y"], **attributes)
    return run_node(node, [operand.astype(np.float64) for operand in operands], OPSETS)[0]


def runtime(operator: str, *operands: Array, **attributes: Any) -> Array:
    """ONNX Runtime's float32, exact for sums below 2^24; ONNX's reference refuses some of these."""
    names = [f"x{at}" for at in range(len(operands))]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **attributes)],
        "operator",
        [helper.make_tensor_value_info(name, 1, array.shape) for name, array in zip(names, operands, strict=True)],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSETS[""])], ir_version=10)
    floats = {name: array.astype(np.float32) for name, array in zip(names, operands, strict=True)}
    return session(model).run(None, floats)[0]


def encoded(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes as a node returns them."""
    node = helper.make_node("Conv", [], [], **attributes)
    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def integers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-255, 256, shape)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 6), (4, 3, 3, 2), {}),
    ((1, 4, 7, 8), (6, 2, 3, 3), {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1]}),
    ((1, 3, 9, 9), (3, 1, 3, 3), {"group": 3, "dilations": [2, 3], "pads": [2, 2, 2, 2]}),
    ((1, 3, 8, 7), (2, 3, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 8, 7), (2, 3, 4, 2), {"auto_pad": "SAME_LOWER", "strides": [3, 1]}),
    ((1, 3, 8, 7), (2, 3, 4, 2), {"auto_pad": "VALID", "strides": [3, 1]}),
    ((1, 2, 3, 4), (2, 2, 1, 1), {"pads": [1, 0, 2, 1]}),  # windows of padding alone
    ((2, 3, 9), (2, 3, 4), {"strides": [2], "pads": [3, 1]}),
    ((1, 2, 4, 5, 3), (2, 2, 2, 3, 2), {"strides": [2, 1, 1], "pads": [1, 0, 1, 0, 1, 0]}),
]


@pytest.mark.parametrize(("x", "w", "attributes"), CONVOLUTIONS, ids=str)
def test_convolutions(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    data, weight = integers(0, *x), integers(1, *w)
    expected = reference("Conv", data, weight, kernel_shape=list(w[2:]), **attributes)
    assert np.array_equal(convolution(data, weight, encoded(attributes)), expected)


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 4, 5), (3, 2, 3, 3), {}),
    ((1, 4, 4, 5), (4, 2, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 4, 3, 3), (4, 3, 3, 3), {"group": 2, "strides": [2, 3], "pads": [0, 1, 2, 1]}),
    ((1, 2, 3, 4), (2, 2, 3, 2), {"strides": [2, 2], "output_padding": [1, 1], "dilations": [2, 1]}),
    ((1, 2, 3, 4), (2, 2, 3, 3), {"strides": [2, 2], "output_shape": [7, 8]}),
    ((1, 2, 3, 4), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((2, 2, 5), (2, 3, 4), {"strides": [3], "pads": [1, 0]}),
]


@pytest.mark.parametrize(("x", "w", "attributes"), TRANSPOSED, ids=str)
def test_transposed_convolutions(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    data, weight = integers(0, *x), integers(1, *w)
    expected = runtime("ConvTranspose", data, weight, kernel_shape=list(w[2:]), **attributes)
    assert np.array_equal(transposed_convolution(data, weight, encoded(attributes)), expected)


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "pads": [0, 1, 1, 0], "strides": [1, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 3], "dilations": [2, 2], "strides": [2, 1]},
]


@pytest.mark.parametrize("attributes", POOLS, ids=str)
def test_maxima(attributes: dict[str, Any]) -> None:
    data = integers(2, 2, 3, 8, 9)
    found = window_maxima(data, attributes["kernel_shape"], encoded(attributes))
    assert np.array_equal(found, reference("MaxPool", data, **attributes))


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("attributes", POOLS, ids=str)
def test_averages(attributes: dict[str, Any], include: int) -> None:
    data = integers(3, 2, 3, 8, 9)
    known = encoded(attributes)
    shape = window(data.shape[2:], known["kernel_shape"], known)
    found = window_sums(data, known["kernel_shape"], known) / counts(data.shape[2:], shape, bool(include))
    expected = reference("AveragePool", data, **attributes, count_include_pad=include)
    assert np.allclose(found, expected, rtol=1e-12)


def test_products_beyond_float64_are_refused() -> None:
    one = np.array([[2**26]])
    assert matrix_product(one, one - 1).item() == 2**26 * (2**26 - 1)
    with pytest.raises(AssertionError, match="operands are too large for float64"):
        matrix_product(2 * one, one)
