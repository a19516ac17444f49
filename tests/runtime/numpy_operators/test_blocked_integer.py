# SPDX-License-Identifier: Apache-2.0
"""Integer operators in blocks of channels: their meaning by the plain ones, and their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.operators.graph_function import graph_function
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.quantised_weights import best_dot_layout
from vdla.compiler.target import TARGETS, Target, host
from vdla.hardware.numerics import scales_from_floats
from vdla.runtime.native import build
from vdla.runtime.network.evaluate_nodes import layouts_of
from vdla.runtime.numpy_operators import FUNCTIONS
from vdla.runtime.numpy_operators.blocked import ChannelBlocks, call_in_layouts, from_blocked, to_blocked

LANES = best_dot_layout(host()).lanes
RESULT = {"y_zero_point": -3, "low": -100, "high": 90}
FULL = {"y_zero_point": 4, "low": -128, "high": 127}
DTYPES = ("int8", "uint8")


def int8(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-128, 128, shape, np.int8)


def biases(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(-9999, 9999, count, np.int32)


def factors(*real: float) -> dict[str, np.ndarray]:
    multiplier, shift = scales_from_floats(np.array(real, np.float32))
    return {"multiplier": multiplier, "shift": shift}


def in_blocks(x: np.ndarray, dtype: str) -> np.ndarray:
    """An int8 image in blocks of `dtype`; padding channels have a value that must not matter."""
    padding = np.full((x.shape[0], -x.shape[1] % LANES, *x.shape[2:]), 77, np.int8)
    made = to_blocked(np.concatenate([x, padding], axis=1), LANES)
    return made if dtype == "int8" else made.view(np.uint8) ^ np.uint8(0x80)


def numbers(x: np.ndarray, channels: int) -> np.ndarray:
    """The plain int8 image of blocks."""
    values = from_blocked(x, channels)
    return values if values.dtype == np.int8 else (values ^ np.uint8(0x80)).view(np.int8)


def type_of(array: np.ndarray, channels: int | None) -> TensorType:
    """The type of an array; with five dimensions it is an image in blocks of channels."""
    if channels is None or array.ndim != 5:
        return TensorType(array.dtype.name, array.shape)
    batch, _, *plane, lanes = array.shape
    return TensorType(array.dtype.name, (batch, channels, *plane), lanes)


def defined(
    op: str, inputs: list[np.ndarray], attributes: dict[str, Any], channels: int, result: ChannelBlocks | None
) -> np.ndarray:
    """The result of the node's definition, for a first input of `channels`."""
    layouts = layouts_of([type_of(array, channels if n == 0 else None) for n, array in enumerate(inputs)])
    [made] = call_in_layouts(FUNCTIONS[op], attributes, inputs, layouts, [result])
    return np.asarray(made)


Channels = tuple[int | None, int | None]  # of image and result, in blocks where these are


def run(
    op: str,
    inputs: list[np.ndarray],
    attributes: dict[str, Any],
    wanted: np.ndarray,
    data: int,
    channels: Channels = (None, None),
) -> np.ndarray:
    """The result of the node's kernel; inputs behind the first `data` are constants."""
    function = function_of(op, inputs, attributes, wanted, data, host(), channels)
    kernel = build(default_schedule(function.function).fn)
    arrays = {f"i{k}": array for k, array in enumerate(inputs)}
    return kernel(*(arrays[name] for name in function.inputs), *function.constants.values())


def function_of(
    op: str,
    inputs: list[np.ndarray],
    attributes: dict[str, Any],
    wanted: np.ndarray,
    data: int,
    target: Target,
    channels: Channels = (None, None),
) -> Any:
    names = [f"i{k}" for k in range(len(inputs))]
    constants = dict(zip(names[data:], inputs[data:], strict=True))
    types = {
        name: type_of(array, channels[0] if name == "i0" else None) for name, array in zip(names, inputs, strict=True)
    }
    types["y"] = type_of(wanted, channels[1])
    node = Node(op, tuple(names), ("y",), attributes)
    return graph_function(Graph("g", tuple(names[:data]), ("y",), (node,), constants, types), target)


# --- convolutions ---------------------------------------------------------------------------------


def conv(**changes: Any) -> dict[str, Any]:
    options = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
    return options | {"x_zero_point": 5} | RESULT | changes


CONVOLUTIONS = {
    "3x3": ((2, 20, 7, 9), (40, 20, 3, 3), conv()),
    "strides": ((1, 33, 8, 7), (17, 33, 3, 3), conv(strides=(2, 1), pads=(0, 1, 1, 0))),
    "1x1": ((1, 32, 5, 6), (16, 32, 1, 1), conv(pads=(0, 0, 0, 0), **FULL)),
    "dilations": ((1, 16, 9, 9), (16, 16, 3, 2), conv(dilations=(2, 3))),
    "depthwise": ((2, 21, 7, 9), (21, 1, 3, 3), conv(group=21)),
    "depthwise, strides": ((1, 32, 9, 9), (32, 1, 5, 3), conv(group=32, strides=(2, 2), pads=(2, 1, 2, 1))),
    "depthwise, dilations": ((1, 16, 9, 9), (16, 1, 3, 3), conv(group=16, dilations=(1, 2))),
}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_blocks(name: str, dtype: str) -> None:
    random = np.random.default_rng(len(name))
    shape, weight_shape, options = CONVOLUTIONS[name]
    x, weight = int8(random, *shape), int8(random, *weight_shape)
    outputs = weight_shape[0]
    options = options | factors(*random.uniform(1e-3, 4e-3, outputs))
    bias = biases(random, outputs)
    [expected] = FUNCTIONS["vdla.QConv"](options, x, weight, bias)
    check_convolution(in_blocks(x, dtype), shape[1], weight, bias, options, dtype, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_plain_image_into_blocks(dtype: str) -> None:
    random = np.random.default_rng(3)
    x, weight, bias = int8(random, 1, 3, 9, 11), int8(random, 20, 3, 3, 3), biases(random, 20)
    options = conv(strides=(2, 2)) | factors(*random.uniform(1e-3, 4e-3, 20))
    [expected] = FUNCTIONS["vdla.QConv"](options, x, weight, bias)
    check_convolution(x, 3, weight, bias, options, dtype, expected)


def check_convolution(
    x: np.ndarray,
    channels: int,
    weight: np.ndarray,
    bias: np.ndarray,
    attributes: dict[str, Any],
    dtype: str,
    expected: np.ndarray,
) -> None:
    """Definition and kernel both give the plain result."""
    assert np.unique(expected).size > 3
    inputs, outputs = [x, weight, bias], len(weight)
    wanted = defined("vdla.QConv", inputs, attributes, channels, ChannelBlocks(outputs, LANES, dtype))
    got = run("vdla.QConv", inputs, attributes, wanted, 1, (channels, outputs))
    for result in (wanted, got):
        assert result.dtype == dtype
        np.testing.assert_array_equal(numbers(result, len(weight)), expected)


@pytest.mark.parametrize(("group", "factor"), [(2, 1), (1, 1 << 23)], ids=["groups", "great sums"])
def test_other_convolutions_are_declined(group: int, factor: int) -> None:
    random = np.random.default_rng(0)
    x, weight = in_blocks(int8(random, 1, 32, 5, 5), "int8"), int8(random, 32, 32 // group, 3, 3)
    inputs, attributes = [x, weight, biases(random, 32) * factor], conv(group=group) | factors(1e-3)
    wanted = defined("vdla.QConv", inputs, attributes, 32, ChannelBlocks(32, LANES, "int8"))
    with pytest.raises(DeclinedError) as error:
        run("vdla.QConv", inputs, attributes, wanted, 1, (32, 32))
    rule = "have one group or one channel a group, and sums below 2**29, in blocks of channels"
    assert str(error.value) == f"vdla.QConv y: the node must {rule}"


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_kernels(name: str) -> None:
    random, layout = np.random.default_rng(0), best_dot_layout(Target.named(name))
    x, weight, bias = int8(random, 1, 20, 6, 6), int8(random, 20, 20, 3, 3), biases(random, 20)
    dtype = "uint8" if layout.data == "uint8" else "int8"
    image = to_blocked(x, layout.lanes).astype(dtype)
    for kernel, group in ((weight, 1), (weight[:, :1], 20)):
        inputs, attributes = [image, kernel, bias], conv(group=group) | factors(1e-3)
        wanted = defined("vdla.QConv", inputs, attributes, 20, ChannelBlocks(20, layout.lanes, dtype))
        function = function_of("vdla.QConv", inputs, attributes, wanted, 1, Target.named(name), (20, 20))
        default_schedule(function.function, Target.named(name))


TRANSPOSED = {  # output padding behind the weight
    "4x4": ((1, 20, 4, 5), (20, 21, 4, 4), (0, 0), conv(strides=(2, 2))),
    "strides": ((2, 6, 5, 3), (6, 18, 3, 4), (1, 0), conv(strides=(3, 2), pads=(1, 0, 0, 2))),
    "dilations": ((1, 9, 4, 5), (9, 5, 3, 2), (1, 2), conv(strides=(2, 3), dilations=(3, 2), pads=(0, 1, 2, 0))),
    "narrow windows": ((1, 9, 4, 5), (9, 5, 2, 1), (2, 0), conv(strides=(3, 2), pads=(0, 0, 0, 0))),
    "no strides": ((1, 9, 4, 5), (9, 5, 3, 3), (0, 0), conv(pads=(2, 2, 2, 2))),
}


@pytest.mark.sampled
@pytest.mark.parametrize("data", [*DTYPES, "plain"])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str, data: str) -> None:
    random = np.random.default_rng(len(name))
    shape, weight_shape, extra, options = TRANSPOSED[name]
    x, weight, outputs = int8(random, *shape), int8(random, *weight_shape), weight_shape[1]
    options = options | factors(*random.uniform(1e-3, 4e-3, outputs)) | {"output_padding": extra}
    inputs = [x, weight, biases(random, outputs)]
    [expected] = FUNCTIONS["vdla.QConvTranspose"](options, *inputs)
    assert np.unique(expected).size > 3
    if data == "plain":
        np.testing.assert_array_equal(run("vdla.QConvTranspose", inputs, options, expected, 1), expected)
    dtype = "uint8" if data == "plain" else data
    inputs = [x if data == "plain" else in_blocks(x, data), *inputs[1:]]
    wanted = defined("vdla.QConvTranspose", inputs, options, shape[1], ChannelBlocks(outputs, LANES, dtype))
    for result in (wanted, run("vdla.QConvTranspose", inputs, options, wanted, 1, (shape[1], outputs))):
        assert result.dtype == dtype
        np.testing.assert_array_equal(numbers(result, outputs), expected)


def test_other_transposed_convolutions_are_declined() -> None:
    random = np.random.default_rng(0)
    inputs = [in_blocks(int8(random, 1, 32, 5, 5), "int8"), int8(random, 32, 16, 3, 3), biases(random, 32)]
    attributes = conv(group=2, output_padding=(0, 0)) | factors(1e-3)
    wanted = defined("vdla.QConvTranspose", inputs, attributes, 32, ChannelBlocks(32, LANES, "int8"))
    with pytest.raises(DeclinedError) as error:
        run("vdla.QConvTranspose", inputs, attributes, wanted, 1, (32, 32))
    rule = "have images, one group, and sums below 2**29"
    assert str(error.value) == f"vdla.QConvTranspose y: the node must {rule}"


# --- pools ----------------------------------------------------------------------------------------


WINDOW = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 1, 1, 0), "dilations": (1, 1), "x_zero_point": 4}
ONE = {"multiplier": np.array([1 << 23]), "shift": np.array([23])}
POOLS = {
    "max": ("QMaxPool", WINDOW | RESULT | factors(0.7)),
    "max of one scale": ("QMaxPool", WINDOW | FULL | ONE),
    "average": ("QAveragePool", WINDOW | RESULT | {"count_include_pad": 0} | factors(0.7)),
    "average with padding": ("QAveragePool", WINDOW | RESULT | {"count_include_pad": 1} | factors(0.7)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", POOLS)
def test_pools_of_blocks(name: str, dtype: str) -> None:
    op, attributes = POOLS[name]
    x = int8(np.random.default_rng(7), 2, 21, 8, 8)
    [expected] = FUNCTIONS[f"vdla.{op}"](attributes, x)
    image = in_blocks(x, dtype)
    wanted = defined(f"vdla.{op}", [image], attributes, 21, ChannelBlocks(21, LANES, dtype))
    for result in (wanted, run(f"vdla.{op}", [image], attributes, wanted, 1, (21, 21))):
        assert result.dtype == dtype
        np.testing.assert_array_equal(numbers(result, 21), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_mean_of_images_in_blocks_is_plain(dtype: str) -> None:
    x = int8(np.random.default_rng(8), 2, 21, 7, 5)
    options = {"kernel_shape": (7, 5), "strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "x_zero_point": 4}
    attributes = options | RESULT | {"count_include_pad": 0, "low": -12} | factors(3.0)
    [expected] = FUNCTIONS["vdla.QAveragePool"](attributes, x)
    assert np.unique(expected).size > 3
    image = in_blocks(x, dtype)
    wanted = defined("vdla.QAveragePool", [image], attributes, 21, None)
    for result in (wanted, run("vdla.QAveragePool", [image], attributes, wanted, 1, (21, None))):
        np.testing.assert_array_equal(result, expected)


# --- element by element ---------------------------------------------------------------------------


TWO = {"a_zero_point": 7, "b_zero_point": -4}
ELEMENTWISE = {
    "vdla.QAdd": (2, RESULT | TWO | {"factors": (3, -2)} | factors(0.3)),
    "vdla.QMul": (2, RESULT | TWO | factors(0.01)),
    "vdla.QRescale": (1, RESULT | {"x_zero_point": 7} | factors(0.5)),
    "vdla.QLeakyRelu": (1, RESULT | {"factors": (100, 1), "x_zero_point": 7} | factors(0.005)),
    "vdla.QTable": (1, {"table": np.roll(np.arange(-128, 128), 50).astype(np.int8)}),
}


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elements_of_uint8_stand_for_int8_numbers_plus_128(op: str) -> None:
    count, attributes = ELEMENTWISE[op]
    random = np.random.default_rng(9)
    plain_inputs = [int8(random, 1, 2, 5, 3, LANES) for _ in range(count)]
    [expected] = FUNCTIONS[op](attributes, *plain_inputs)
    inputs = [x.view(np.uint8) ^ np.uint8(0x80) for x in plain_inputs]
    [wanted] = FUNCTIONS[op](attributes, *inputs)
    for result in (wanted, run(op, inputs, attributes, wanted, count)):
        assert result.dtype == np.uint8
        np.testing.assert_array_equal(result.astype(int) - 128, expected)
