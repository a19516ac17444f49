# SPDX-License-Identifier: Apache-2.0
"""Winograd convolution against sums over windows, and the choice of an algorithm by shapes."""

import numpy as np
import pytest
from helpers.run_operator import floats, function_of, integers, run
from helpers.window_sums import model

from vdla.compiler import ir, operators, te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import OperatorError, pack_winograd, plan_convolution, winograd_conv2d
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.winograd import TRANSFORMS
from vdla.runtime.native import build

# x, weight, pads
CASES = {
    "whole_tiles": ((1, 3, 8, 8), (16, 3, 3, 3), 1),
    "odd": ((2, 5, 7, 9), (21, 5, 3, 3), 1),
    "uneven": ((1, 2, 6, 11), (4, 2, 3, 3), (0, 2, 1, 0)),
    "one_tile": ((1, 4, 3, 3), (8, 4, 3, 3), 0),
}
ERRORS = {2: 2e-6, 4: 2e-5}  # relative to the largest result


def operands(name):
    shape, kernel, pads = CASES[name]
    return floats(shape, seed=1), floats(kernel, seed=2), pads


def close(got, expected, tile):
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= ERRORS[tile] * np.abs(expected).max()


@pytest.mark.parametrize("tile", TRANSFORMS)
def test_the_transforms_compute_a_correlation(tile):
    transform = TRANSFORMS[tile]
    data, window = np.arange(1.0, transform.data_tile + 1) ** 2, np.array([2.0, -3.0, 5.0])
    products = (np.array(transform.weight) @ window) * (np.array(transform.data) @ data)
    np.testing.assert_allclose(
        np.array(transform.product) @ products, np.correlate(data, window, "valid"), rtol=1e-12, atol=1e-12
    )


@pytest.mark.sampled
@pytest.mark.parametrize("tile", TRANSFORMS)
@pytest.mark.parametrize("name", CASES)
def test_winograd_equals_the_model(name, tile):
    x, weight, pads = operands(name)
    packed = pack_winograd(weight, tile)
    got = run(lambda a, w: winograd_conv2d(a, w, None, pads, len(weight), tile), x, packed)
    close(got, model(x, weight, 1, pads), tile)


@pytest.mark.sampled
@pytest.mark.parametrize("tile", TRANSFORMS)
@pytest.mark.parametrize("name", CASES)
def test_scheduled_winograd_equals_the_model(name, tile):
    x, weight, pads = operands(name)
    expected = model(x, weight, 1, pads)
    for target in ("x86-64-avx512", "cortex-a9"):
        packed = pack_winograd(weight, tile, target)
        fn, (output,) = function_of(lambda a, w: winograd_conv2d(a, w, None, pads, len(weight), tile), x, packed)
        scheduled = default_schedule(fn, target).fn
        assert any(isinstance(s, ir.For) and s.kind is ir.LoopKind.UNROLL for s in ir.walk(scheduled.body))
        close(interpret(scheduled, {"a": x, "b": packed})[output.name], expected, tile)
    packed = pack_winograd(weight, tile)
    fn, _ = function_of(lambda a, w: winograd_conv2d(a, w, None, pads, len(weight), tile), x, packed)
    close(build(default_schedule(fn).fn)(x, packed), expected, tile)


def test_winograd_with_bias_and_relu_equals_the_model():
    x, weight, pads = operands("odd")
    bias = floats(21, seed=3)
    packed = pack_winograd(weight, 2)
    fn, _ = function_of(lambda a, w, b: operators.relu(winograd_conv2d(a, w, b, pads, 21, 2)), x, packed, bias)
    expected = np.maximum(model(x, weight, 1, pads) + bias[:, None, None], 0)
    close(build(default_schedule(fn).fn)(x, packed, bias), expected, 2)


CHOICES = {
    "winograd": (((1, 64, 14, 14), (64, 64, 3, 3)), {"pads": 1}, "winograd2"),
    "few_channels": (((1, 3, 14, 14), (64, 3, 3, 3)), {"pads": 1}, "direct"),
    "strided": (((1, 64, 14, 14), (64, 64, 3, 3)), {"strides": 2}, "direct"),
    "integers": (((1, 64, 14, 14), (64, 64, 3, 3)), {"dtype": "int32"}, "direct"),
    "grouped": (((1, 64, 14, 14), (64, 32, 3, 3)), {"groups": 2}, "direct"),
    "depthwise": (((1, 8, 6, 7), (8, 1, 3, 3)), {"groups": 8, "strides": 2}, "depthwise"),
    "asked_for": (((1, 8, 6, 7), (8, 8, 3, 3)), {"algorithm": "winograd4"}, "winograd4"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_plan_depends_on_the_shapes(name):
    shapes, options, expected = CHOICES[name]
    assert plan_convolution(*shapes, **options).algorithm == expected


@pytest.mark.parametrize("algorithm", ["direct", "winograd2", "winograd4"])
def test_a_plan_packs_the_weight_that_it_reads(algorithm):
    x, weight = integers((1, 5, 6, 7), "float32", 1, -5, 5), integers((12, 5, 3, 3), "float32", 2, -5, 5)
    layer = plan_convolution(x.shape, weight.shape, pads=1, algorithm=algorithm)
    data, weights = te.placeholder(x.shape, "float32", "x"), layer.weight("w")
    assert layer.pack(weight).shape == weights.shape
    fn = te.create_function([data, weights], [layer.apply(data, weights, name="y")], "layer")
    got = interpret(fn, {"x": x, "w": layer.pack(weight)})["y"]
    np.testing.assert_allclose(got, model(x, weight, 1, 1), atol=1e-2)


X = te.placeholder((1, 4, 5, 5), "float32", "x")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack_winograd(np.zeros((2, 2, 3, 3)), 3), "pack_winograd: tile must be 2 or 4, got 3"),
        (
            lambda: pack_winograd(np.zeros((2, 2, 5, 5))),
            "pack_winograd: weight must be an array [CO, CI, 3, 3] of floats, got float64[2, 2, 5, 5]",
        ),
        (
            lambda: winograd_conv2d(X, te.placeholder((5, 5, 1, 4, 8), "float32", "w")),
            "winograd_conv2d: weight must be [6, 6, ...], as pack_winograd makes it for tile=4, got [5, 5, 1, 4, 8]",
        ),
        (
            lambda: winograd_conv2d(X, te.placeholder((4, 4, 1, 3, 8), "float32", "w"), tile=2),
            "winograd_conv2d: weight must have 4 input channels, as x, got 3",
        ),
        (
            lambda: winograd_conv2d(X, te.placeholder((4, 4, 1, 4, 8), "float32", "w"), tile=2, out_channels=9),
            "winograd_conv2d: out_channels must be in 1..8, the channels of weight, got 9",
        ),
        (
            lambda: winograd_conv2d(X, te.placeholder((4, 4, 1, 4, 8), "float32", "w"), tile=2, out_channels=0),
            "winograd_conv2d: out_channels must be in 1..8, the channels of weight, got 0",
        ),
        (
            lambda: pack_winograd(np.zeros((2, 2, 3, 3), np.int32)),
            "pack_winograd: weight must be an array [CO, CI, 3, 3] of floats, got int32[2, 2, 3, 3]",
        ),
        (lambda: winograd_conv2d(5, X), "winograd_conv2d: x must be a te.Tensor, got 5"),
        (
            lambda: winograd_conv2d(X, te.placeholder((4, 4, 1, 4, 8), "float32", "w"), tile=2, out_channels="all"),
            "winograd_conv2d: out_channels must be an integer, got 'all'",
        ),
        (
            lambda: plan_convolution((1, 4, 5, 5), (8, 4, 5, 5)).pack(np.zeros((8, 4, 3, 3), np.float32)),
            "plan_convolution: weight must be float32[8, 4, 5, 5], got float32[8, 4, 3, 3]",
        ),
        (
            lambda: plan_convolution((1, 4, 5, 5), (8, 4, 5, 5), dtype="float"),
            "plan_convolution: dtype must be one of int2, int4, int8, int16, int32, int64, uint8, uint16, uint32, "
            "uint64, float16, bfloat16, float32, float64, got 'float'",
        ),
        (
            lambda: plan_convolution((1, 4, 5, 5), (8, 4, 5, 5), algorithm="winograd2"),
            "plan_convolution: algorithm must be one of direct, got 'winograd2'",
        ),
        (
            lambda: plan_convolution((1, 4, 5, 5), (8, 3, 5, 5)),
            "plan_convolution: weight_shape must be [1 * outputs, 4 / 1, KH, KW], got [8, 3, 5, 5]",
        ),
    ],
)
def test_invalid_winograd_arguments_are_refused(call, message):
    with pytest.raises(OperatorError) as failure:
        call()
    assert str(failure.value) == message


@pytest.mark.sampled
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("channels, outputs, shape", [(16, 16, (8, 8)), (11, 21, (7, 9)), (24, 8, (14, 5))])
def test_blocks_of_channels_equal_the_plain_image(tile, channels, outputs, shape):
    x, weight = integers((2, channels, *shape), "float32", 1, -5, 5), integers((outputs, channels, 3, 3), "float32", 2)
    bias = integers((outputs,), "float32", 3)
    packed = pack_winograd(weight, tile, "x86-64-avx2")
    image = np.pad(x, ((0, 0), (0, -channels % 8), (0, 0), (0, 0)), constant_values=9)
    blocks = np.ascontiguousarray(image.reshape(2, -1, 8, *shape).transpose(0, 1, 3, 4, 2))
    for given in (bias, np.pad(bias, (0, -outputs % 8))):
        result = run(
            lambda a, w, b: winograd_conv2d(a, w, b, 1, outputs, tile, "NCHW8c", name="y"), blocks, packed, given
        )
        channel_first = result.transpose(0, 1, 4, 2, 3).reshape(2, -1, *shape)[:, :outputs]
        expected = model(x, weight, 1, 1) + bias[:, None, None]
        np.testing.assert_allclose(channel_first, expected, rtol=0, atol=1e-5 * np.abs(expected).max() * tile)
