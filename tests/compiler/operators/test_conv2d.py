# SPDX-License-Identifier: Apache-2.0
"""Convolution with every option against sums over windows, for several CPUs and as machine code."""

import math

import numpy as np
import pytest
from helpers.run_operator import function_of, integers, run
from helpers.window_sums import model

from vdla.compiler import ir, operators, te
from vdla.compiler.analysis import leaves
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import OperatorError, add, conv2d, depthwise_conv2d, pack_conv2d
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import build

# x, weight, strides, pads, dilations, groups
CASES = {
    "3x3": ((1, 3, 6, 8), (32, 3, 3, 3), 1, 1, 1, 1),
    "1x1": ((2, 5, 4, 4), (16, 5, 1, 1), 1, 0, 1, 1),
    "1x1_strided": ((1, 5, 6, 7), (16, 5, 1, 1), 2, 0, 1, 1),
    "7x7": ((1, 3, 14, 14), (17, 3, 7, 7), 2, 3, 1, 1),
    "odd_channels": ((1, 3, 5, 5), (21, 3, 3, 3), 1, 1, 1, 1),
    "few_channels": ((1, 4, 5, 6), (3, 4, 3, 3), 1, 1, 1, 1),
    "uneven": ((1, 2, 7, 9), (8, 2, 2, 3), (1, 2), (0, 1, 2, 0), (2, 1), 1),
    "long_row": ((1, 2, 3, 43), (16, 2, 3, 3), 1, 1, 1, 1),
    "grouped": ((1, 6, 5, 5), (32, 3, 3, 3), 1, 1, 1, 2),
    "one_pixel": ((1, 40, 1, 1), (100, 40, 1, 1), 1, 0, 1, 1),
    "odd_groups": ((1, 6, 5, 4), (15, 2, 3, 3), 1, 1, 1, 3),
}


def operands(name):
    shape, kernel, *options = CASES[name]
    return integers(shape, "float32", 1, -5, 5), integers(kernel, "float32", 2, -5, 5), options


def blocked(weights):
    """The layout of packed weights."""
    return f"OIHW{weights.shape[-1]}o"


def unpacked(name, target="host"):
    x, weight, (strides, pads, dilations, groups) = operands(name)
    fn, (output,) = function_of(
        lambda a, w: conv2d(a, w, None, strides, pads, dilations, groups, target=target), x, weight
    )
    return fn, {"a": x, "b": weight}, output.name


def packed(name, target="host"):
    x, weight, (strides, pads, dilations, groups) = operands(name)
    weights = pack_conv2d(weight, target, groups)
    options = (strides, pads, dilations, groups, len(weight), "NCHW", blocked(weights))
    fn, (output,) = function_of(lambda a, w: conv2d(a, w, None, *options), x, weights)
    return fn, {"a": x, "b": weights}, output.name


@pytest.mark.parametrize("name", CASES)
def test_packed_and_plain_weights_equal_the_model(name):
    x, weight, options = operands(name)
    for form in (packed, unpacked):
        fn, arrays, output = form(name)
        np.testing.assert_array_equal(interpret(fn, arrays)[output], model(x, weight, *options))


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64-avx2", "cortex-a9"])
@pytest.mark.parametrize("name", CASES)
def test_scheduled_conv2d_equals_the_model(name, target):
    x, weight, options = operands(name)
    fn, arrays, output = packed(name, target)
    schedule = default_schedule(fn, target)
    assert any(isinstance(s, ir.For) and s.kind is ir.LoopKind.UNROLL for s in ir.walk(schedule.fn.body))
    np.testing.assert_array_equal(interpret(schedule.fn, arrays)[output], model(x, weight, *options))


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_native_conv2d_equals_the_model(name):
    x, weight, options = operands(name)
    for form in (packed, unpacked):
        fn, arrays, _ = form(name)
        kernel = build(default_schedule(fn).fn)
        np.testing.assert_array_equal(kernel(*arrays.values()), model(x, weight, *options))


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", ["3x3", "odd_channels", "few_channels", "uneven", "grouped", "odd_groups"])
def test_sums_start_from_the_bias(name, dtype):
    x, weight, (strides, pads, dilations, groups) = operands(name)
    bias = integers(len(weight), "float32", 3)
    expected = (model(x, weight, strides, pads, dilations, groups) + bias[:, None, None]).astype("int64").astype(dtype)
    options = strides, pads, dilations, groups, len(weight)
    packed_weights = pack_conv2d(weight.astype(dtype), groups=groups)
    for weights, layout in ((weight.astype(dtype), "OIHW"), (packed_weights, blocked(packed_weights))):
        arrays = x.astype(dtype), weights, bias.astype(dtype)
        fn, (output,) = function_of(lambda a, w, b, n=layout: conv2d(a, w, b, *options, weight_layout=n), *arrays)
        np.testing.assert_array_equal(build(default_schedule(fn).fn)(*arrays), expected)
        np.testing.assert_array_equal(interpret(fn, dict(zip("abc", arrays, strict=True)))[output.name], expected)


@pytest.mark.parametrize("name", CASES)
def test_no_sum_is_computed_twice(name):
    fn, _, output = packed(name, "x86-64-avx512")
    scheduled = default_schedule(fn, "x86-64-avx512").fn
    (sums,) = (leaf for leaf in leaves(scheduled) if leaf.name == f"{output}_sum")
    points = math.prod(loop.size for loop in sums.loops)
    axes = math.prod(axis.size for axis in sums.block.axes)
    assert points <= 1.7 * axes  # tiles may extend beyond the image


def residual(x, w, bias, other):
    """relu(conv + bias + other)."""
    return operators.relu(add(conv2d(x, w, bias, 1, 1, weight_layout=blocked(w), name="conv"), other))


def test_element_wise_stages_fuse_with_convolution_tiles():
    x, weight, _ = operands("3x3")
    bias, other = integers(32, "float32", 3), integers((1, 32, 6, 8), "float32", 4)
    fn, _ = function_of(residual, x, pack_conv2d(weight), bias, other)
    schedule = default_schedule(fn)
    blocks = [s.name for s in ir.walk(schedule.fn.body) if isinstance(s, ir.Block)]
    assert len(blocks) == 3  # padding, sums, and the fused result
    expected = np.maximum(model(x, weight, 1, 1) + bias[:, None, None] + other, 0)
    arrays = (x, pack_conv2d(weight), bias, other)
    np.testing.assert_array_equal(build(schedule.fn)(*arrays), expected)


def test_two_consumers_share_the_sums():
    def twice(x, w):
        total = conv2d(x, w, None, 1, 1, weight_layout=blocked(w), name="conv")
        return operators.relu(total, "positive"), operators.negative(total, "negative")

    x, weight, _ = operands("3x3")
    fn, _ = function_of(twice, x, pack_conv2d(weight))
    positive, negative = build(default_schedule(fn).fn)(x, pack_conv2d(weight))
    expected = model(x, weight, 1, 1)
    np.testing.assert_array_equal(positive, np.maximum(expected, 0))
    np.testing.assert_array_equal(negative, -expected)


def test_blocked_images_give_blocked_results():
    x, weight = integers((1, 16, 5, 6), "float32", 1, -5, 5), integers((32, 16, 3, 3), "float32", 2, -5, 5)
    blocks = np.ascontiguousarray(x.reshape(1, 2, 8, 5, 6).transpose(0, 1, 3, 4, 2))
    weights = pack_conv2d(weight, "x86-64-avx512")
    layouts = {"layout": "NCHW8c", "weight_layout": "OIHW16o"}
    fn, (output,) = function_of(lambda a, w: conv2d(a, w, None, 1, 1, **layouts), blocks, weights)
    expected = model(x, weight, 1, 1).reshape(1, 2, 16, 5, 6).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(interpret(fn, {"a": blocks, "b": weights})[output.name], expected)
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(blocks, weights), expected)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_conv2d_computes_in_other_dtypes(dtype):
    x, weight, options = operands("3x3")
    arrays = x.astype(dtype), pack_conv2d(weight.astype(dtype))
    fn, _ = function_of(lambda a, w: conv2d(a, w, None, 1, 1, out_channels=32, weight_layout=blocked(w)), *arrays)
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(*arrays), model(x, weight, *options).astype(dtype))


DEPTHWISE = {
    "3x3": ((1, 3, 9, 20), (3, 1, 3, 3), 1, 1, 1),
    "strided": ((2, 2, 9, 28), (2, 1, 3, 3), 2, 1, 1),
    "small": ((1, 5, 7, 7), (5, 1, 3, 3), 1, 1, 1),
    "times": ((1, 3, 5, 33), (6, 1, 3, 2), (1, 2), (0, 1, 2, 0), (2, 1)),
    "large": ((1, 2, 9, 17), (2, 1, 7, 7), 1, 3, 1),
    "plain": ((1, 2, 4, 5), (2, 1, 2, 2), 1, 0, 1),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_conv2d_equals_the_model(name):
    shape, kernel, *options = DEPTHWISE[name]
    x, weight = integers(shape, "float32", 1, -5, 5), integers(kernel, "float32", 2, -5, 5)
    bias = integers(kernel[0], "float32", 3)
    expected = model(x, weight, *options, groups=shape[1])
    np.testing.assert_array_equal(run(lambda a, w: depthwise_conv2d(a, w, None, *options), x, weight), expected)
    expected += bias[:, None, None]
    fn, (output,) = function_of(lambda a, w, b: depthwise_conv2d(a, w, b, *options), x, weight, bias)
    arrays = {"a": x, "b": weight, "c": bias}
    for target in ("x86-64-avx512", "cortex-a9"):
        scheduled = default_schedule(fn, target).fn
        assert any(isinstance(s, ir.For) and s.kind is ir.LoopKind.VECTORIZE for s in ir.walk(scheduled.body))
        np.testing.assert_array_equal(interpret(scheduled, arrays)[output.name], expected)
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(x, weight, bias), expected)


X, W = te.placeholder((1, 4, 5, 5), "float32", "x"), te.placeholder((6, 4, 3, 3), "float32", "w")
P, B = te.placeholder((2, 4, 3, 3, 8), "float32", "p"), te.placeholder((5,), "float32", "b")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conv2d(X, W, groups=4), "conv2d: groups must divide the 6 output channels, got 4"),
        (lambda: conv2d(X, W, groups=2), "conv2d: weight must have 4 / 2 input channels (those of x / groups), got 4"),
        (lambda: conv2d(X, W, B), "conv2d: bias must be of shape [6], got [5]"),
        (
            lambda: conv2d(X, P, out_channels=5, weight_layout="OIHW8o"),
            "conv2d: weight must have 1 blocks of 8 channels, got 2",
        ),
        (
            lambda: conv2d(X, te.placeholder((6, 4, 9, 3), "float32", "w")),
            "conv2d: a window must not be longer than the padded input, got a window of 9 over 5 along spatial "
            "dimension 0",
        ),
        (lambda: depthwise_conv2d(X, W), "depthwise_conv2d: weight must be [4 * m, 1, KH, KW], got [6, 4, 3, 3]"),
        (
            lambda: pack_conv2d(np.zeros((2, 3))),
            "pack_conv2d: weight must be an array [CO, CI, KH, KW] of numbers, got float64[2, 3]",
        ),
        (lambda: pack_conv2d([1]), "pack_conv2d: weight must be an array [CO, CI, KH, KW], got [1]"),
        (
            lambda: pack_conv2d(np.zeros((5, 1, 1, 1), np.complex64)),
            "pack_conv2d: weight must be an array [CO, CI, KH, KW] of numbers, got complex64[5, 1, 1, 1]",
        ),
        (lambda: conv2d(5, W), "conv2d: x must be a te.Tensor, got 5"),
        (lambda: conv2d(X, P), "conv2d: weight must have 4 dimensions in layout OIHW, got 5"),
        (
            lambda: conv2d(X, P, weight_layout="OIHW16o"),
            "conv2d: weight must have 16 lanes in layout OIHW16o, got 8",
        ),
        (
            lambda: conv2d(X, P, weight_layout="OIHW8i"),
            "conv2d: weight_layout must be OIHW or OIHW<lanes>o, got 'OIHW8i'",
        ),
        (lambda: conv2d(X, W, layout="NHWC"), "conv2d: layout must be NCHW or NCHW<lanes>c, got 'NHWC'"),
        (lambda: conv2d(X, W, layout="NCHW4c"), "conv2d: x must have 5 dimensions in layout NCHW4c, got 4"),
        (lambda: conv2d(X, W, target=7), "conv2d: target must be a name or a Target, got 7"),
        (
            lambda: conv2d(X, W, out_channels=5),
            "conv2d: out_channels must be the 6 of a plain weight, got 5",
        ),
        (lambda: depthwise_conv2d(5, W), "depthwise_conv2d: x must be a te.Tensor, got 5"),
        (
            lambda: pack_conv2d(np.zeros((5, 1, 1, 1)), groups=2),
            "pack_conv2d: groups must divide the 5 output channels, got 2",
        ),
    ],
)
def test_invalid_conv2d_arguments_are_refused(call, message):
    with pytest.raises(OperatorError) as failure:
        call()
    assert str(failure.value) == message
