# SPDX-License-Identifier: Apache-2.0
"""Integer operators: the definitions by hand, and their kernels against the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.operators.graph_function import graph_function
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import host
from vdla.hardware.numerics import pack_scale, scales_from_floats, unpack_scale
from vdla.runtime.native import build
from vdla.runtime.numpy_operators import FUNCTIONS

RANDOM = np.random.default_rng(1)
RESULT = {"y_zero_point": -3, "low": -100, "high": 90}
HALF = {"multiplier": np.array([1 << 23]), "shift": np.array([24])}
ONE = {"multiplier": np.array([1 << 23]), "shift": np.array([23])}
PLAIN = {"y_zero_point": 0, "low": -128, "high": 127}


def int8(*shape: int) -> np.ndarray:
    return RANDOM.integers(-128, 127, shape, np.int8, endpoint=True)


def biases(count: int) -> np.ndarray:
    return RANDOM.integers(-9999, 9999, count, np.int32)


def factors(*real: float) -> dict[str, np.ndarray]:
    multiplier, shift = scales_from_floats(np.array(real, np.float32))
    return {"multiplier": multiplier, "shift": shift}


def spread(count: int) -> dict[str, np.ndarray]:
    """Different factors that neither clip all results nor make them 0."""
    return factors(*RANDOM.uniform(1e-4, 3e-3, count))


def apply(op: str, *inputs: np.ndarray, **attributes: Any) -> np.ndarray:
    [result] = FUNCTIONS[op](attributes, *inputs)
    return result


# --- by hand --------------------------------------------------------------------------------------


def test_half_to_even_and_the_zero_point_after_rounding():
    x = np.array([-3, -1, 1, 3, 5, 127], np.int8)
    made = apply("vdla.QRescale", x, x_zero_point=0, **HALF, **(PLAIN | {"y_zero_point": 1}))
    assert made.tolist() == [-1, 1, 1, 3, 3, 65]  # -1.5, -0.5, 0.5, 1.5, 2.5, 63.5, plus 1


def test_sums_wrap_in_32_bits():
    weight, bias = np.array([[127]], np.int8), np.array([2**31 - 1], np.int32)
    made = apply("vdla.QDense", np.array([[1]], np.int8), weight, bias, x_zero_point=0, **factors(2**-24), **PLAIN)
    assert made.tolist() == [[-128]]


def test_padding_of_a_convolution_is_the_zero_point():
    x, weight = np.full((1, 1, 2), 7, np.int8), np.ones((1, 1, 3), np.int8)
    options = {"strides": (1,), "pads": (1, 1), "dilations": (1,), "group": 1, "x_zero_point": 5}
    made = apply("vdla.QConv", x, weight, np.zeros(1, np.int32), **options, **ONE, **PLAIN)
    assert made.tolist() == [[[4, 4]]]


def test_transposed_convolution_scatters():
    x, weight = np.array([[[1, 2]]], np.int8), np.array([[[1, 10, 100]]], np.int8)
    options = {"strides": (2,), "pads": (0, 0), "dilations": (1,), "group": 1, "output_padding": (0,)}
    bias = np.ones(1, np.int32)
    made = apply("vdla.QConvTranspose", x, weight, bias, x_zero_point=0, **options, **ONE, **PLAIN)
    assert made.tolist() == [[[2, 11, 103, 21, 127]]]


def test_average_divides_by_the_elements_that_count():
    x = np.array([[[3, 5, 7]]], np.int8)
    options = {"kernel_shape": (2,), "strides": (2,), "pads": (1, 0), "dilations": (1,), "x_zero_point": 1}
    assert apply("vdla.QAveragePool", x, count_include_pad=0, **options, **ONE, **PLAIN).tolist() == [[[2, 5]]]
    assert apply("vdla.QAveragePool", x, count_include_pad=1, **options, **ONE, **PLAIN).tolist() == [[[1, 5]]]


def test_leaky_relu_and_tables():
    x = np.array([-100, -1, 0, 50], np.int8)
    made = apply("vdla.QLeakyRelu", x, factors=(10, 1), x_zero_point=0, **factors(0.1), **PLAIN)
    assert made.tolist() == [-10, 0, 0, 50]
    table = np.arange(127, -129, -1).astype(np.int8)
    assert apply("vdla.QTable", x, table=table).tolist() == [99, 0, -1, -51]
    assert apply("vdla.ToInt8", np.array([0, 128, 255], np.uint8)).tolist() == [-128, 0, 127]
    assert apply("vdla.ToUint8", x).tolist() == [28, 127, 128, 178]


def test_terms_of_a_row_add_up_to_a_multiple_of_its_sum():
    x = np.array([[127, 127, 126], [-128, -128, -128], [1, 0, 0], [0, 0, -1]], np.int8)
    made = apply("vdla.RowTerms", x, factor=-100, count=3)
    assert np.array_equal(made[:, :3], x)
    assert made[:2, 3:].tolist() == [[-100, -100, -100, 100], [100, 101, 101, 46]]
    terms = made[:, 3:].astype(int)
    assert (127 * terms[:, :-1].sum(axis=1) + terms[:, -1]).tolist() == [-38000, 38400, -100, 100]


def test_lanes_of_columns_keep_multiplier_and_shift():
    x = np.array([[1, -2], [3, 127]], np.int8)
    made = apply("vdla.ColumnLanes", x, factor=-2, offset=5, lane=int(pack_scale(0, 1 << 23, 24)))
    assert [part.tolist() for part in unpack_scale(made.view(np.uint64))] == [[-3, -245], [1 << 23] * 2, [24] * 2]


# --- kernels --------------------------------------------------------------------------------------


def conv(rank: int, **changes: Any) -> dict[str, Any]:
    options = {"strides": (1,) * rank, "pads": (1,) * 2 * rank, "dilations": (1,) * rank, "group": 1}
    return options | {"x_zero_point": 5} | changes


WINDOW = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 1, 1, 0), "dilations": (1, 1), "x_zero_point": 4}
TWO = {"a_zero_point": 7, "b_zero_point": -4}
CASES = {
    "conv": ("vdla.QConv", [int8(2, 7, 9, 11), int8(10, 7, 3, 3), biases(10)], conv(2, strides=(2, 1)) | spread(10)),
    "grouped": ("vdla.QConv", [int8(1, 12, 5, 5), int8(8, 6, 3, 3), biases(8)], conv(2, group=2) | spread(8)),
    "depthwise": ("vdla.QConv", [int8(1, 12, 5, 5), int8(12, 1, 3, 3), biases(12)], conv(2, group=12) | spread(12)),
    "one dimension": ("vdla.QConv", [int8(1, 3, 15), int8(4, 3, 4), biases(4)], conv(1, dilations=(2,)) | spread(4)),
    "volume": ("vdla.QConv", [int8(1, 3, 4, 4, 4), int8(4, 3, 2, 2, 2), biases(4)], conv(3) | spread(4)),
    "transposed": (
        "vdla.QConvTranspose",
        [int8(1, 6, 5, 5), int8(6, 4, 4, 4), biases(8)],
        conv(2, strides=(2, 3), group=2, output_padding=(1, 0)) | factors(1e-3),
    ),
    "dense": ("vdla.QDense", [int8(3, 20), int8(11, 20), biases(11)], {"x_zero_point": 7} | spread(11)),
    "dense of a batch": ("vdla.QDense", [int8(2, 3, 20), int8(5, 20), biases(5)], {"x_zero_point": 7} | spread(5)),
    "sums beyond 2**29": (
        "vdla.QDense",
        [int8(2, 20000), int8(3, 20000), biases(3)],
        {"x_zero_point": -128} | factors(1e-5, 2e-5, 3e-5),
    ),
    "matmul": ("vdla.QMatMul", [int8(2, 3, 20), int8(1, 20, 5)], TWO | factors(1e-3)),
    "terms": ("vdla.RowTerms", [int8(2, 3, 20)], {"factor": 100, "count": 16}),
    "no whole terms": ("vdla.RowTerms", [int8(3, 1)], {"factor": 0, "count": 0}),
    "lanes": ("vdla.ColumnLanes", [int8(2, 20, 3)], {"factor": -128, "offset": 77, "lane": 5 << 32}),
    "add": ("vdla.QAdd", [int8(2, 3, 20), int8(3, 1)], TWO | {"factors": (3, -2)} | factors(0.3)),
    "mul": ("vdla.QMul", [int8(2, 3, 20), int8(1, 3, 1)], TWO | factors(0.01)),
    "rescale": ("vdla.QRescale", [int8(2, 3, 20)], {"x_zero_point": 7} | factors(0.5)),
    "leaky": ("vdla.QLeakyRelu", [int8(2, 30)], {"factors": (100, 1), "x_zero_point": 7} | factors(0.005)),
    "slopes": (
        "vdla.QPRelu",
        [int8(2, 5, 3, 7), int8(5, 1, 1)],
        {"x_zero_point": 7} | factors(0.005),
    ),
    "slopes above 1": (
        "vdla.QPRelu",
        [int8(4, 5), np.array([-32000, 300, 0, 128, 32767], np.int16)],
        {"x_zero_point": -7} | factors(0.0005),
    ),
    "max pool": ("vdla.QMaxPool", [int8(1, 5, 8, 8)], WINDOW | factors(0.7)),
    "max pool of one scale": ("vdla.QMaxPool", [int8(1, 5, 8, 8)], WINDOW | ONE),
    "average pool": ("vdla.QAveragePool", [int8(1, 5, 8, 8)], WINDOW | {"count_include_pad": 0} | factors(0.7)),
    "with padding": ("vdla.QAveragePool", [int8(1, 5, 8, 8)], WINDOW | {"count_include_pad": 1} | factors(0.7)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_kernels_equal_the_definitions(name):
    op, inputs, attributes = CASES[name]
    if "multiplier" in attributes:
        one = {"y_zero_point": 4, "low": -128, "high": 127}
        attributes = attributes | (one if name.endswith("one scale") else RESULT)
    wanted = apply(op, *inputs, **attributes)
    assert np.unique(wanted).size > 3
    np.testing.assert_array_equal(run(op, inputs, attributes, wanted), wanted)


def test_kernels_of_tables_and_conversions():
    x, table = int8(2, 70), int8(256)
    unsigned = RANDOM.integers(0, 255, (4, 70), np.uint8, endpoint=True)
    for op, inputs, attributes in (
        ("vdla.QTable", [x], {"table": table}),
        ("vdla.ToUint8", [x], {}),
        ("vdla.ToInt8", [unsigned], {}),
    ):
        wanted = apply(op, *inputs, **attributes)
        np.testing.assert_array_equal(run(op, inputs, attributes, wanted), wanted)


def run(op: str, inputs: list[np.ndarray], attributes: dict[str, Any], wanted: np.ndarray) -> np.ndarray:
    """The result of the node's kernel; operands after the first of a product are constants."""
    names = [f"i{k}" for k in range(len(inputs))]
    constants = dict(zip(names[1:], inputs[1:], strict=True)) if len(inputs) == 3 or op == "vdla.QPRelu" else {}
    arrays = dict(zip(names, inputs, strict=True))
    types = {name: TensorType(array.dtype.name, array.shape) for name, array in (arrays | {"y": wanted}).items()}
    given = tuple(name for name in names if name not in constants)
    graph = Graph("g", given, ("y",), (Node(op, tuple(names), ("y",), attributes),), constants, types)
    made = graph_function(graph, host())
    kernel = build(default_schedule(made.function).fn)
    return kernel(*(arrays[name] for name in made.inputs), *made.constants.values())
