# SPDX-License-Identifier: Apache-2.0
"""Quantised operators on blocks of channels, against NumPy's exact rescaling, for several CPUs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.quantised_model import convolved, rescaled
from helpers.run_operator import function_of, integers, run

from vdla.compiler import te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import (
    OperatorError,
    max_pool,
    pack_qconv2d,
    pack_qdepthwise_conv2d,
    qadd,
    qconv2d,
    qdepthwise_conv2d,
    qglobal_average_pool,
)
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.quantised_weights import best_dot_layout
from vdla.compiler.target import Target
from vdla.runtime.native import build

# data, outputs (None: depthwise), kernel, strides, pads, dilations
CASES = {
    "3x3": ((1, 24, 6, 9), 24, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "3x3_strided": ((2, 16, 9, 12), 21, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "1x1": ((1, 40, 5, 7), 16, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "1x1_strided": ((1, 16, 6, 7), 32, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),
    "uneven": ((1, 16, 7, 9), 16, (2, 3), (1, 2), (0, 1, 2, 0), (2, 1)),
    "depthwise": ((1, 24, 9, 9), None, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "depthwise_strided": ((2, 16, 12, 11), None, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    "depthwise_5x5": ((1, 19, 8, 8), None, (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    "depthwise_dilated": ((1, 16, 9, 9), None, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    "depthwise_large": ((1, 16, 40, 41), None, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
}
ZERO, RESULT_ZERO = 7, 12


def blocks(x, lanes, fill=0):
    """An image in blocks of channels."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, -c % lanes), (0, 0), (0, 0)), constant_values=fill)
    return np.ascontiguousarray(padded.reshape(n, -1, lanes, h, w).transpose(0, 1, 3, 4, 2))


def plain(x, channels):
    """The first channels of an image in blocks."""
    n, b, h, w, lanes = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, b * lanes, h, w)[:, :channels]


def operands(name, x_dtype="uint8", halves=False):
    """Data, weight, bias and scale of a case; powers of two make many ties."""
    data, outputs, kernel, *_ = CASES[name]
    rng, limits = np.random.default_rng(1), np.iinfo(x_dtype)
    shape = (data[1], 1, *kernel) if outputs is None else (outputs, data[1], *kernel)
    x = rng.integers(limits.min, limits.max, data, x_dtype, endpoint=True)
    weight = rng.integers(-128, 127, shape, np.int8, endpoint=True)
    bias = rng.integers(-5000, 5000, len(weight)).astype(np.int32)
    scale = 2.0 ** rng.integers(-9, -6, len(weight)) if halves else rng.uniform(2e-3, 8e-3, len(weight))
    return x, weight, bias, scale.astype(np.float32)


def expected(name, x, weight, bias, scale, clip=(0, 255)):
    """The result in NumPy."""
    _, outputs, _, *options = CASES[name]
    total = convolved(x, weight, ZERO, *options, depthwise=outputs is None) + bias[:, None, None]
    return np.clip(rescaled(total, scale[:, None, None], RESULT_ZERO, "uint8"), *clip)


def blocks_of(target):
    """The layout of images in blocks of the lanes of a target's dot product."""
    return f"NCHW{best_dot_layout(target).lanes}c"


def layer(name, target, arrays, clip=None, is_plain=False):
    """The function of a case and its packed inputs."""
    x, weight, bias, scale = arrays
    _, outputs, kernel, strides, pads, dilations = CASES[name]
    machine = Target.named(target)
    options = {"strides": strides, "pads": pads, "dilations": dilations, "clip": clip, "name": "y"}
    if outputs is None:
        packing = {"strides": strides, "dilations": dilations, "layout": blocks_of(machine)}
        packed = pack_qdepthwise_conv2d(weight, scale, machine, bias, ZERO, str(x.dtype), **packing)
        operator, extra = qdepthwise_conv2d, {"kernel_shape": kernel, "layout": blocks_of(machine)}
    else:
        packed, operator = pack_qconv2d(weight, scale, machine, bias, ZERO, str(x.dtype)), qconv2d
        extra = {"layout": "NCHW" if is_plain else blocks_of(machine), "result_layout": "blocks"}
    image = x if is_plain else blocks(x, best_dot_layout(machine).lanes, fill=99)
    inputs = image, packed.weight, packed.bias, packed.scale
    sums = {"largest_sum": packed.largest_sum, "x_zero_point": ZERO, "y_zero_point": RESULT_ZERO}
    fn, _ = function_of(lambda *t: operator(*t, machine, **extra, **sums, **options), *inputs)
    return fn, inputs


@pytest.mark.sampled
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_convolutions_equal_numpy(name, halves):
    arrays = operands(name, halves=halves)
    fn, inputs = layer(name, "host", arrays)
    result = build(default_schedule(fn).fn)(*inputs)
    np.testing.assert_array_equal(plain(result, len(arrays[1])), expected(name, *arrays))


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64-avx2", "cortex-a9", "neoverse-n1"])
@pytest.mark.parametrize("name", ["3x3_strided", "1x1", "depthwise_strided"])
def test_schedules_for_other_cpus_equal_numpy(name, target):
    arrays = operands(name)
    fn, inputs = layer(name, target, arrays)
    schedule = default_schedule(fn, target)
    assert compile_native(schedule.fn, target).object
    named = dict(zip([fn.params[n] for n in range(4)], inputs, strict=True))
    result = interpret(schedule.fn, named)["y"]
    np.testing.assert_array_equal(plain(result, len(arrays[1])), expected(name, *arrays))


@pytest.mark.parametrize("name", ["1x1", "depthwise"])
def test_int8_data_and_clipping(name):
    x, *rest = operands(name, "int8")
    fn, inputs = layer(name, "host", (x, *rest), clip=(RESULT_ZERO, 200))
    result = build(default_schedule(fn).fn)(*inputs)
    np.testing.assert_array_equal(plain(result, len(rest[0])), expected(name, x, *rest, clip=(RESULT_ZERO, 200)))


def test_a_plain_image_goes_into_blocks():
    x, weight, bias, scale = operands("3x3")
    arrays = np.ascontiguousarray(x[:, :3]), np.ascontiguousarray(weight[:, :3]), bias, scale
    fn, inputs = layer("3x3", "host", arrays, is_plain=True)
    result = build(default_schedule(fn).fn)(*inputs)
    np.testing.assert_array_equal(plain(result, 24), expected("3x3", *arrays))


def test_large_sums_are_rescaled_in_float64():
    x, weight = np.full((1, 2048, 1, 1), 255, np.uint8), np.full((16, 2048, 1, 1), 127, np.int8)
    bias, scale = np.arange(16, dtype=np.int32), np.full(16, np.float32(2.0**-19), np.float32)
    lanes = best_dot_layout(Target.named("host")).lanes
    packed = pack_qconv2d(weight, scale, "host", bias)
    assert packed.largest_sum == 2048 * 255 * 127 + 15 > 2**24
    inputs = blocks(x, lanes), packed.weight, packed.bias, packed.scale
    result = run(lambda *t: qconv2d(*t, "host", largest_sum=packed.largest_sum, layout=f"NCHW{lanes}c"), *inputs)
    total = convolved(x, weight, 0, (1, 1), (0, 0, 0, 0), (1, 1), depthwise=False) + bias[:, None, None]
    np.testing.assert_array_equal(plain(result, 16), rescaled(total, scale[:, None, None], 0, "uint8"))


@pytest.mark.parametrize("x_dtype", ["uint8", "int8"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_the_bound_of_sums_is_reached(depthwise, x_dtype):
    weight, limits = integers((4, 1 if depthwise else 5, 3, 3), "int8", 3, -128, 128), np.iinfo(x_dtype)
    bias = integers((4,), "int32", 4, -1000, 1000)
    parameters = np.float32(1), "host", bias, 100, x_dtype
    if depthwise:
        packed = pack_qdepthwise_conv2d(weight, *parameters, layout=blocks_of(Target.named("host")))
    else:
        packed = pack_qconv2d(weight, *parameters)
    terms = weight.reshape(4, -1).astype(int)
    extremes = [np.where(terms * sign > 0, limits.max, limits.min) - 100 for sign in (1, -1)]
    sums = [(terms * data).sum(axis=1) + bias for data in extremes]
    assert packed.largest_sum == np.abs(sums).max()


def test_addition_rescales_an_exact_sum_once():
    a, b = (integers((1, 2, 3, 5, 16), "uint8", seed, 0, 256) for seed in (1, 2))
    scales = np.float32(0.021), np.float32(0.034), np.float32(0.05)
    ratio = Fraction(float(scales[0]) / float(scales[1])).limit_denominator(32767)
    factors, scale = (ratio.numerator, ratio.denominator), np.float32(scales[1] / ratio.denominator / scales[2])
    result = run(lambda x, y: qadd(x, y, factors, float(scale), 3, 250, 100, "int8", clip=(-5, 90)), a, b)
    total = (a.astype(int) - 3) * factors[0] + (b.astype(int) - 250) * factors[1]
    np.testing.assert_array_equal(result, np.clip(rescaled(total, scale, 100, "int8"), -5, 90))
    exact = (a.astype(float) - 3) * scales[0] / scales[2] + (b.astype(float) - 250) * scales[1] / scales[2]
    assert np.abs(np.clip(np.rint(exact) + 100, -5, 90) - result).max() <= 1


def test_an_addition_after_a_convolution_is_part_of_its_kernel():
    arrays = operands("1x1")
    lanes = best_dot_layout(Target.named("host")).lanes
    packed = pack_qconv2d(*(arrays[n] for n in (1, 3)), "host", arrays[2], ZERO)
    other = integers((1, 16, 5, 7), "uint8", 5, 0, 256)
    inputs = blocks(arrays[0], lanes), packed.weight, packed.bias, packed.scale, blocks(other, lanes)

    def residual(x, w, b, s, o):
        options = {"largest_sum": packed.largest_sum, "layout": f"NCHW{lanes}c", "name": "y"}
        y = qconv2d(x, w, b, s, "host", None, ZERO, RESULT_ZERO, **options)
        return qadd(y, o, (3, 2), 0.2, RESULT_ZERO, 9, 4, name="z")

    fn, _ = function_of(residual, *inputs)
    schedule = default_schedule(fn)
    assert "y" not in schedule.fn.buffers or schedule.fn.buffers["y"].scope == "stack"
    first = expected("1x1", *arrays).astype(int)
    total = (first - RESULT_ZERO) * 3 + (other.astype(int) - 9) * 2
    wanted = rescaled(total, np.float32(0.2), 4, "uint8")
    np.testing.assert_array_equal(plain(build(schedule.fn)(*inputs), 16), wanted)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_pools_equal_numpy(dtype):
    x = integers((1, 21, 7, 6), dtype, 1, np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    result = run(lambda a: qglobal_average_pool(a, "NCHW16c", 21, 0.04, 5, 9, "int8"), blocks(x, 16, fill=1))
    total = (x.astype(int) - 5).sum(axis=(2, 3), keepdims=True)
    np.testing.assert_array_equal(result, rescaled(total, np.float32(0.04), 9, "int8"))
    largest = run(lambda a: max_pool(a, 3, 2, 1, layout="NCHW16c"), blocks(x, 16))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 1)), constant_values=np.iinfo(dtype).min)
    taps = [padded[:, :, r : r + 7 : 2, q : q + 5 : 2] for r in range(3) for q in range(3)]
    np.testing.assert_array_equal(plain(largest, 21), np.max(taps, axis=0))


def test_a_depthwise_tile_does_everything_once():
    known = Target.named("x86-64-avx512")
    target = replace(known, name="icelake", features=known.features | {"avx512vbmi"})
    packed = pack_qdepthwise_conv2d(np.ones((16, 1, 3, 3), np.int8), np.float32(1), target, layout="NCHW16c")
    fn, _ = function_of(
        lambda x, w, b, s: qdepthwise_conv2d(x, w, b, s, target, 3, pads=1, layout="NCHW16c"),
        np.zeros((1, 1, 16, 16, 16), np.uint8), packed.weight, packed.bias, packed.scale,
    )  # fmt: skip
    text = compile_native(default_schedule(fn, target).fn, target).assembly
    assert text.count("vpdpbusd") == 8 * 2 * 3  # rows and columns of the tile, rows of the window
    assert text.count("vpermb") == (8 + 2) * 2
    assert "vpaddd" not in text  # sums start from the bias


X = te.placeholder((1, 2, 5, 5, 16), "uint8", "x")
W = te.placeholder((2, 8, 1, 1, 16, 4), "int8", "w")
D = te.placeholder((2, 3, 1, 16, 4), "int8", "d")
B, S = te.placeholder((32,), "int32", "b"), te.placeholder((32,), "float32", "s")
AVX512 = "x86-64-avx512"


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: qconv2d(X, te.placeholder((2, 4, 1, 1, 16, 4), "int8", "w"), B, S, AVX512, layout="NCHW16c"),
            "qconv2d: weight must be int8[CO / 16, CI / 4, KH, KW, 16, 4] of the channels of x, "
            "got int8[2, 4, 1, 1, 16, 4]; pack_qconv2d packs it for a target",
        ),
        (
            lambda: qconv2d(te.placeholder((1, 2, 5, 5, 6), "uint8", "x"), W, B, S, AVX512, layout="NCHW6c"),
            "qconv2d: the lanes of x must be a multiple of 4, got 6",
        ),
        (
            lambda: qconv2d(X, W, B, S, AVX512, clip=(5, 256), layout="NCHW16c"),
            "qconv2d: clip must be a range within 0..255 for uint8, got 5..256",
        ),
        (
            lambda: qdepthwise_conv2d(X, D, B, S, AVX512, 3, layout="NCHW16c"),
            "qdepthwise_conv2d: weight must be int8[2, 3, 3, 16, 1], got int8[2, 3, 1, 16, 4]; "
            "pack_qdepthwise_conv2d packs it for a target",
        ),
        (
            lambda: pack_qdepthwise_conv2d(np.zeros((4, 2, 3, 3), np.int8), np.float32(1), "host", layout="NCHW16c"),
            "pack_qdepthwise_conv2d: weight must be an int8 array [C, 1, KH, KW], got int8[4, 2, 3, 3]",
        ),
        (
            lambda: qconv2d(X, W, B, S, AVX512, layout="NCHW16c", result_layout="NCHW"),
            "qconv2d: result_layout must be blocks for an image in blocks, got 'NCHW'",
        ),
        (
            lambda: qdepthwise_conv2d(X, te.placeholder((2, 3, 3, 16, 1), "int8", "d"), B, S, AVX512, 3),
            "qdepthwise_conv2d: x must have 4 dimensions, got 5",
        ),
        (lambda: qadd(X, X, (1, 40000), 1.0), "qadd: factors must be at most 32767 in magnitude, got 1 and 40000"),
        (
            lambda: qadd(X, te.placeholder((1,), "uint8", "y"), (1, 1), 1.0),
            "qadd: b must be of shape [1, 2, 5, 5, 16], as a, got [1]",
        ),
        (
            lambda: qglobal_average_pool(X, "NCHW16c", 3, 1.0),
            "qglobal_average_pool: channels must fill 2 blocks of 16 lanes, got 3",
        ),
    ],
)
def test_errors_name_the_rule(make, message):
    with pytest.raises(OperatorError) as error:
        make()
    assert str(error.value) == message
