# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution with every option, against a sum of shifted kernels."""

import numpy as np
import pytest
from helpers.run_operator import floats, integers, run

from vdla.compiler import te
from vdla.compiler.operators import OperatorError, conv_transpose


def model(x, weight, strides, pads, extra, dilations, groups):
    """The sum of scaled kernels, one for each input element, cropped by the padding."""
    rank, images, channels, outs = x.ndim - 2, x.shape[0], x.shape[1], weight.shape[1]
    extents = [
        (x.shape[2 + d] - 1) * strides[d] + (weight.shape[2 + d] - 1) * dilations[d] + 1 + extra[d] for d in range(rank)
    ]
    canvas = np.zeros((images, outs * groups, *extents), x.dtype)
    for n, c, *at in np.ndindex(*x.shape):
        group = c // (channels // groups)
        for tap in np.ndindex(*weight.shape[2:]):
            places = tuple(a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True))
            kernels = weight[(c, slice(None), *tap)]
            canvas[(n, slice(group * outs, (group + 1) * outs), *places)] += x[(n, c, *at)] * kernels
    cut = tuple(slice(pads[d], extents[d] - pads[rank + d]) for d in range(rank))
    return canvas[(slice(None), slice(None), *cut)]


CASES = [
    ((1, 3, 4, 5), (3, 2, 3, 3), (1, 1), (0, 0, 0, 0), (0, 0), (1, 1), 1),
    ((2, 4, 4, 3), (4, 3, 4, 4), (2, 2), (1, 1, 1, 1), (0, 0), (1, 1), 1),
    ((1, 2, 3, 4), (2, 3, 3, 2), (2, 3), (1, 0, 0, 1), (1, 2), (1, 1), 1),
    ((1, 2, 4, 4), (2, 1, 3, 3), (3, 2), (0, 1, 2, 0), (0, 1), (2, 3), 1),
    ((1, 2, 4, 5), (2, 2, 3, 2), (4, 6), (1, 3, 0, 2), (1, 2), (6, 4), 1),
    ((1, 6, 3, 4), (6, 2, 3, 3), (2, 1), (1, 1, 1, 1), (1, 0), (1, 1), 3),
    ((2, 3, 7), (3, 2, 5), (3,), (2, 1), (2,), (1,), 1),
    ((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), (2, 1, 2), (0, 0, 1, 0, 1, 0), (0, 0, 1), (1, 2, 1), 2),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conv_transpose_equals_the_model_with_every_option(case):
    shape, kernel, *options = case
    x, weight = integers(shape, "int32", 1), integers(kernel, "int32", 2)
    got = run(lambda a, w: conv_transpose(a, w, None, *options), x, weight)
    np.testing.assert_array_equal(got, model(x, weight, *options))


def test_conv_transpose_adds_a_float_bias():
    x, weight, bias = floats((1, 2, 3, 3), seed=1), floats((2, 4, 3, 3), seed=2), floats(4, seed=3)
    got = run(lambda a, w, b: conv_transpose(a, w, b, 2, 1, 1), x, weight, bias)
    expected = model(x.astype(float), weight.astype(float), (2, 2), (1,) * 4, (1, 1), (1, 1), 1)
    np.testing.assert_allclose(got, expected + bias[:, None, None], rtol=1e-4, atol=1e-4)


X, W = te.placeholder((1, 4, 5, 5), "float32", "x"), te.placeholder((4, 2, 3, 3), "float32", "w")
V, H = te.placeholder((3, 2, 3, 3), "float32", "v"), te.placeholder((4, 2, 3, 3), "int8", "h")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: conv_transpose(X, V), "conv_transpose: the first extent of weight must be the 4 channels of x, got 3"),
        (lambda: conv_transpose(X, H), "conv_transpose: all operands must have one dtype, got float32, int8"),
        (lambda: conv_transpose(X, W, te.placeholder((3,), "float32", "b")),
         "conv_transpose: bias must be of shape [2], got [3]"),
        (lambda: conv_transpose(X, W, groups=3), "conv_transpose: groups must divide the 4 channels, got 3"),
        (lambda: conv_transpose(X, W, strides=2, output_padding=2),
         "conv_transpose: output_padding must be less than the stride or the dilation, 2, got 2"),
        (lambda: conv_transpose(X, W, pads=4), "conv_transpose: the result must have elements, got 7 less pads of 8"),
    ],
)  # fmt: skip
def test_invalid_conv_transpose_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message
