# SPDX-License-Identifier: Apache-2.0
"""Pooling with every option, against a loop over windows."""

import itertools

import numpy as np
import pytest
from helpers.run_operator import floats, integers, run

from vdla.compiler import operators as ops
from vdla.compiler import te
from vdla.compiler.operators import OperatorError, same_pads


def windows_along(extent, kernel, stride, before, after, dilation, ceil_mode):
    """The positions of the taps of each window, padding included."""
    positions = []
    start = -before
    while start + (kernel - 1) * dilation < extent + after:
        positions.append([start + k * dilation for k in range(kernel)])
        start += stride
    not_reached = positions[-1][-1] < extent + after - 1
    if ceil_mode and not_reached and start < extent:
        positions.append([start + k * dilation for k in range(kernel)])
    return positions


def model(x, combine, kernel, strides, pads, dilations, ceil_mode, include_pad):
    rank = x.ndim - 2
    lines = [
        windows_along(x.shape[2 + d], kernel[d], strides[d], pads[d], pads[rank + d], dilations[d], ceil_mode)
        for d in range(rank)
    ]
    result = np.zeros((*x.shape[:2], *(len(line) for line in lines)), x.dtype)
    for at in np.ndindex(*result.shape):
        values, counted = [], 0
        for places in itertools.product(*(lines[d][at[2 + d]] for d in range(rank))):
            inside = all(0 <= p < n for p, n in zip(places, x.shape[2:], strict=True))
            padded = all(-pads[d] <= p < x.shape[2 + d] + pads[rank + d] for d, p in enumerate(places))
            counted += padded if include_pad else inside
            if inside:
                values.append(x[(*at[:2], *places)])
        result[at] = combine(values, counted)
    return result


CASES = [
    ((2, 3, 8, 9), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((1, 2, 7, 7), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((1, 2, 7, 6), (3, 2), (1, 2), (1, 0, 2, 1), (1, 1)),
    ((1, 1, 10, 9), (3, 2), (2, 3), (1, 1, 0, 1), (2, 3)),
    ((2, 2, 11), (4,), (3,), (1, 2), (1,)),
    ((1, 1, 5, 6, 4), (2, 3, 2), (2, 1, 2), (0, 1, 1, 1, 0, 0), (1, 2, 1)),
]


@pytest.mark.sampled
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_max_pool_equals_a_loop_over_windows(case, ceil_mode):
    shape, *options = case
    for x in (floats(shape), integers(shape, "int8", low=-128, high=-100)):
        got = run(lambda t: ops.max_pool(t, *options, ceil_mode=ceil_mode), x)
        np.testing.assert_array_equal(got, model(x, lambda v, n: max(v), *options, ceil_mode, False))


@pytest.mark.sampled
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_average_pool_equals_a_loop_over_windows(case, ceil_mode, include):
    shape, *options = case
    x = floats(shape)
    got = run(lambda t: ops.average_pool(t, *options, ceil_mode=ceil_mode, count_include_pad=include), x)
    expected = model(x, lambda v, n: sum(v) / n, *options, ceil_mode, include)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_ceil_mode_adds_no_window_that_begins_in_the_padding():
    x = floats((1, 1, 4))
    assert run(lambda t: ops.max_pool(t, 1, 3, 0, ceil_mode=True), x).shape == (1, 1, 2)
    assert run(lambda t: ops.max_pool(t, 2, 3, (0, 1), ceil_mode=True), x).shape == (1, 1, 2)
    assert run(lambda t: ops.max_pool(t, 2, 2, (1, 1), ceil_mode=True), x).shape == (1, 1, 3)
    assert run(lambda t: ops.average_pool(t, 2, 2, ceil_mode=True), floats((1, 1, 5))).shape == (1, 1, 3)


def test_global_pools_equal_numpy():
    x = floats((2, 3, 4, 5))
    np.testing.assert_array_equal(run(ops.global_max_pool, x), x.max(axis=(2, 3), keepdims=True))
    got = run(ops.global_average_pool, x)
    np.testing.assert_allclose(got, x.mean(axis=(2, 3), keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("auto_pad", "expected"), [("SAME_UPPER", (0, 1, 1, 1)), ("SAME_LOWER", (1, 1, 0, 1))])
def test_same_pads_place_the_odd_element_by_auto_pad(auto_pad, expected):
    assert same_pads((6, 6), (2, 3), (1, 1), auto_pad=auto_pad) == expected
    assert same_pads((7,), 3, 2, 2) == (2, 2)


X = te.placeholder((1, 2, 5, 5), "float32", "x")
TOO_LONG = "a window must not be longer than the padded input"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: same_pads((6,), 2, auto_pad="VALID"),
            "same_pads: auto_pad must be one of SAME_UPPER, SAME_LOWER, got 'VALID'",
        ),
        (lambda: ops.max_pool(X, 0), "max_pool: kernel_shape must be at least 1, got 0"),
        (lambda: ops.max_pool(X, (2, 2, 2)), "max_pool: kernel_shape must be 2 integers, got (2, 2, 2)"),
        (lambda: ops.max_pool(X, 2, pads=2),
         "max_pool: every window must cover an element of x, got none in window 0 along spatial dimension 0"),
        (lambda: ops.max_pool(X, 2, pads=(0, 0, 0, 2)),
         "max_pool: every window must cover an element of x, got none in window 5 along spatial dimension 1"),
        (lambda: ops.average_pool(te.placeholder((1, 1, 1), "float32", "x"), 2, pads=1, dilations=2),
         "average_pool: every window must cover an element of x, got none in window 0 along spatial dimension 0"),
        (lambda: ops.max_pool(te.placeholder((1, 1, 1), "float32", "x"), 2, pads=(0, 2), dilations=3, ceil_mode=True),
         f"max_pool: {TOO_LONG}, got a window of 4 over 3 along spatial dimension 0"),
        (lambda: ops.max_pool(X, 6), f"max_pool: {TOO_LONG}, got a window of 6 over 5 along spatial dimension 0"),
        (lambda: ops.average_pool(te.placeholder((1, 2), "float32", "x"), 2),
         "average_pool: x must have at least 3 dimensions, got 2"),
        (lambda: ops.average_pool(te.placeholder((1, 2, 3), "int8", "x"), 2),
         "average_pool: x must be of a float dtype, got int8"),
    ],
)  # fmt: skip
def test_invalid_pool_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_indices_of_the_largest_elements(case):
    """Of equal elements the first counts, and padding never does."""
    (shape, kernel, strides, pads, dilations), rank = case, len(case[1])
    for x in (floats(shape), np.full(shape, -128, np.int8)):
        got = run(lambda t: ops.max_pool_indices(t, kernel, strides, pads, dilations), x)
        places = np.arange(x.size, dtype=np.float64).reshape(shape)
        best = model(places, lambda v, n: min(v), kernel, strides, pads, dilations, False, False)
        largest = run(lambda t: ops.max_pool(t, kernel, strides, pads, dilations), x)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(x.reshape(-1)[got], largest)
        if x.dtype == np.int8:
            np.testing.assert_array_equal(got, best)
        assert rank == x.ndim - 2


@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_lp_pool(p):
    shape, *options = CASES[2]
    x = floats(shape)
    got = run(lambda t: ops.lp_pool(t, options[0], p, *options[1:]), x)
    expected = model(x, lambda v, n: np.sum(np.abs(v) ** p) ** (1 / p), *options, False, False)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    whole = run(lambda t: ops.global_lp_pool(t, p), x)
    np.testing.assert_allclose(whole, (np.abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p), rtol=1e-5)
