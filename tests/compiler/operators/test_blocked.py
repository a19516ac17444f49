# SPDX-License-Identifier: Apache-2.0
"""Operators on images in blocks of channels, against sums over windows of plain images."""

import numpy as np
import pytest
from helpers.run_operator import close, floats, function_of, integers, run
from helpers.window_sums import model

from vdla.compiler import te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.operators import (
    OperatorError,
    add,
    average_pool,
    conv2d,
    depthwise_conv2d,
    from_blocked,
    global_average_pool,
    max_pool,
    pack_channels,
    pack_conv2d,
    pack_depthwise_conv2d,
    plan_convolution,
    relu,
    to_blocked,
)
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import Target

LANES = 8
LAYOUT = "NCHW8c"
# image, kernel, strides, pads, dilations
WINDOWS = {
    "3x3": ((1, 16, 6, 9), (3, 3), 1, 1, 1),
    "3x3_strided": ((2, 8, 9, 18), (3, 3), 2, 1, 1),
    "even_padding": ((1, 13, 8, 8), (3, 3), 2, (0, 0, 1, 1), 1),
    "5x5_odd_channels": ((1, 11, 7, 7), (5, 5), 1, 2, 1),
    "uneven": ((1, 8, 7, 9), (2, 3), (1, 2), (0, 1, 2, 0), (2, 1)),
    "9x9": ((1, 8, 9, 20), (9, 9), 1, 4, 1),
    "no_padding": ((1, 9, 5, 5), (3, 3), 1, 0, 1),
}


def blocks(x, lanes=LANES, fill=0):
    """An image in blocks of channels; NumPy's definition of `to_blocked`."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, -c % lanes), (0, 0), (0, 0)), constant_values=fill)
    return np.ascontiguousarray(padded.reshape(n, -1, lanes, h, w).transpose(0, 1, 3, 4, 2))


def plain(x, channels):
    """The first channels of an image in blocks."""
    n, b, h, w, lanes = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, b * lanes, h, w)[:, :channels]


@pytest.mark.parametrize("channels", [8, 13, 16])
def test_an_image_goes_into_blocks_and_back(channels):
    x = integers((2, channels, 3, 5), "float32")
    blocked = run(lambda a: to_blocked(a, LANES), x)
    np.testing.assert_array_equal(blocked, blocks(x))
    np.testing.assert_array_equal(run(lambda a: from_blocked(a, channels), blocked), x)


@pytest.mark.sampled
@pytest.mark.parametrize("name", WINDOWS)
def test_depthwise_convolution_equals_sums_over_windows(name):
    shape, kernel, *options = WINDOWS[name]
    channels = shape[1]
    x, weight = integers(shape, "float32", 1, -5, 5), integers((channels, 1, *kernel), "float32", 2, -5, 5)
    bias = integers((channels,), "float32", 3)
    arrays = blocks(x, fill=99), pack_depthwise_conv2d(weight, LANES), pack_channels(bias, LANES)
    result = run(lambda a, w, b: relu(depthwise_conv2d(a, w, b, *options, LAYOUT, "y"), "r"), *arrays)
    expected = np.maximum(model(x, weight, *options, groups=channels) + bias[:, None, None], 0)
    np.testing.assert_array_equal(plain(result, channels), expected)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_depthwise_convolution_of_other_dtypes(dtype):
    x, weight = integers((1, 8, 5, 6), dtype, 1, -5, 5), integers((8, 1, 3, 3), dtype, 2, -5, 5)
    arrays = blocks(x), pack_depthwise_conv2d(weight, LANES)
    result = run(lambda a, w: depthwise_conv2d(a, w, pads=1, layout=LAYOUT), *arrays)
    np.testing.assert_array_equal(plain(result, 8), model(x, weight, 1, 1, groups=8))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["3x3", "3x3_strided", "uneven"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_max_pool_equals_that_of_the_plain_image(name, dtype):
    shape, kernel, strides, pads, dilations = WINDOWS[name]
    x = integers(shape, dtype, 1, 0, 100)
    options = (kernel, strides, (0, 0, 1, 0) if name == "uneven" else pads, dilations)
    result = run(lambda a: max_pool(a, *options, layout=LAYOUT), blocks(x))
    np.testing.assert_array_equal(plain(result, shape[1]), run(lambda a: max_pool(a, *options), x))


@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_average_pool_equals_that_of_the_plain_image(dtype, count_include_pad):
    x = integers((1, 11, 9, 8), dtype, 1)
    options = (3, 2, 1, 1, True, count_include_pad)
    result = run(lambda a: average_pool(a, *options, layout=LAYOUT), blocks(x))
    close(plain(result, 11), run(lambda a: average_pool(a, *options), x))


@pytest.mark.parametrize("channels", [11, 16])
def test_global_average_pool_equals_that_of_the_plain_image(channels):
    x = floats((2, channels, 7, 5))
    result = run(lambda a: global_average_pool(a, LAYOUT, channels), blocks(x, fill=1))
    close(result, run(global_average_pool, x), 64)


@pytest.mark.parametrize("channels, outputs", [(16, 32), (11, 21), (24, 16)])
@pytest.mark.parametrize("padded_bias", [True, False])
def test_convolution_of_channels_that_do_not_fill_blocks(channels, outputs, padded_bias):
    x, weight = integers((1, channels, 6, 7), "float32", 1, -5, 5), integers((outputs, channels, 3, 3), "float32", 2)
    bias = integers((outputs,), "float32", 3)
    packed = pack_conv2d(weight, "x86-64-avx2")
    other = integers((1, -(-outputs // LANES), 3, 4, LANES), "float32", 4)
    arrays = blocks(x, fill=7), packed, pack_channels(bias, LANES) if padded_bias else bias, other
    layouts = {"layout": "NCHW8c", "weight_layout": "OIHW8o"}

    def layer(a, w, b, c):
        return relu(add(conv2d(a, w, b, 2, 1, out_channels=outputs, **layouts, name="y"), c, "s"), "r")

    expected = model(x, weight, 2, 1) + bias[:, None, None] + plain(other, outputs)
    np.testing.assert_array_equal(plain(run(layer, *arrays), outputs), np.maximum(expected, 0))


def test_convolution_of_a_plain_image_into_blocks():
    x, weight = integers((1, 3, 15, 14), "float32", 1, -5, 5), integers((16, 3, 7, 7), "float32", 2, -5, 5)
    options = {"weight_layout": "OIHW8o", "result_layout": "NCHW8c"}
    result = run(lambda a, w: conv2d(a, w, None, 2, 3, **options), x, pack_conv2d(weight, "x86-64-avx2"))
    np.testing.assert_array_equal(plain(result, 16), model(x, weight, 2, 3))


@pytest.mark.parametrize("target", ["x86-64-avx2", "cortex-a9", "aarch64"])
def test_kernels_compile_for_other_targets(target):
    lanes = Target.named(target).lanes(4)
    x = np.zeros((1, 2, 9, 9, lanes), np.float32)
    weight = pack_depthwise_conv2d(np.zeros((2 * lanes, 1, 3, 3), np.float32), lanes)
    fn, _ = function_of(lambda a, w: depthwise_conv2d(a, w, None, 2, 1, layout=f"NCHW{lanes}c"), x, weight)
    assert compile_native(default_schedule(fn, target).fn, target).object


X, W = (te.placeholder(shape, "float32", name) for shape, name in (((1, 2, 5, 5, 8), "x"), ((2, 3, 3, 8), "w")))


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: depthwise_conv2d(X, te.placeholder((1, 3, 3, 8), "float32", "w"), layout=LAYOUT),
            "depthwise_conv2d: weight must be [2, KH, KW, 8], got [1, 3, 3, 8]",
        ),
        (
            lambda: depthwise_conv2d(X, W, te.placeholder((12,), "float32", "b"), layout=LAYOUT),
            "depthwise_conv2d: bias must be of shape [16], got [12]",
        ),
        (lambda: max_pool(W, 3, layout=LAYOUT), "max_pool: x must have 5 dimensions, got 4"),
        (
            lambda: global_average_pool(X, LAYOUT, 7),
            "global_average_pool: channels must fill 2 blocks of 8 lanes, got 7",
        ),
        (lambda: from_blocked(X, 17), "from_blocked: channels must fill 2 blocks of 8 lanes, got 17"),
        (
            lambda: plan_convolution((1, 24, 5, 5), (24, 12, 3, 3), groups=2, target="x86-64-avx2", layout="NCHW8c"),
            "plan_convolution: output channels of a group must fill blocks of 8 where the result is in blocks, got 12",
        ),
        (
            lambda: plan_convolution((1, 8, 5, 5), (8, 8, 1, 1), result_layout="NCHW8c"),
            "plan_convolution: result_layout must be one of NCHW, blocks, got 'NCHW8c'",
        ),
        (lambda: to_blocked(W, 0), "to_blocked: lanes must be at least 1, got 0"),
        (
            lambda: pack_depthwise_conv2d(np.zeros((4, 2, 3, 3), np.float32), 8),
            "pack_depthwise_conv2d: weight must be [C, 1, KH, KW], got [4, 2, 3, 3]",
        ),
        (
            lambda: conv2d(
                te.placeholder((1, 3, 5, 5), "float32", "x"),
                te.placeholder((2, 3, 3, 3, 8), "float32", "w"),
                weight_layout="OIHW8o",
                result_layout="NCHW16c",
            ),
            "conv2d: result_layout must be NCHW or NCHW8c, by the lanes of weight, got NCHW16c",
        ),
    ],
)
def test_errors_name_the_rule(make, message):
    with pytest.raises(OperatorError) as error:
        make()
    assert str(error.value) == message


# x, weight, strides, pads, groups, algorithm
PLANS = {
    "winograd": ((1, 16, 20, 20), (21, 16, 3, 3), 1, 1, 1, "winograd2"),
    "strided": ((1, 16, 9, 9), (16, 16, 3, 3), 2, 1, 1, "direct"),
    "depthwise": ((1, 19, 7, 7), (19, 1, 3, 3), 1, 1, 19, "depthwise"),
    "few_channels": ((1, 16, 4, 4), (3, 16, 1, 1), 1, 0, 1, "direct"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_keeps_images_in_blocks(name):
    shape, kernel, strides, pads, groups, algorithm = PLANS[name]
    x, weight = integers(shape, "float32", 1, -5, 5), integers(kernel, "float32", 2, -5, 5)
    bias = integers((len(weight),), "float32", 3)
    layout, target = f"NCHW{LANES}c", "x86-64-avx2"
    plan = plan_convolution(shape, kernel, strides, pads, groups=groups, target=target, layout=layout)
    assert plan.algorithm == algorithm
    arrays = blocks(x, fill=7), plan.pack(weight), plan.pack_bias(bias)
    assert plan.weight("w").shape == arrays[1].shape
    result = run(lambda a, w, b: plan.apply(a, w, b, "y"), *arrays, ulps=64)
    assert plan.result_layout == f"NCHW{result.shape[-1]}c"
    expected = model(x, weight, strides, pads, groups=groups) + bias[:, None, None]
    np.testing.assert_allclose(plain(result, len(weight)), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("layout, result_layout", [("NCHW", "blocks"), ("NCHW8c", "NCHW")])
def test_a_plan_goes_from_one_layout_to_the_other(layout, result_layout):
    x, weight = integers((1, 16, 20, 20), "float32", 1, -5, 5), integers((21, 16, 3, 3), "float32", 2, -5, 5)
    options = {"target": "x86-64-avx2", "layout": layout, "result_layout": result_layout}
    plan = plan_convolution(x.shape, weight.shape, pads=1, **options)
    assert (plan.algorithm, plan.result_layout) == ("direct", "NCHW8c" if result_layout == "blocks" else "NCHW")
    image = blocks(x) if layout == "NCHW8c" else x
    result = run(lambda a, w: plan.apply(a, w, name="y"), image, plan.pack(weight))
    expected = model(x, weight, 1, 1)
    np.testing.assert_array_equal(plain(result, 21) if result_layout == "blocks" else result, expected)
