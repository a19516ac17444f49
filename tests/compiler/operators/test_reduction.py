# SPDX-License-Identifier: Apache-2.0
"""Reductions and softmax along any axes, against NumPy."""

import numpy as np
import pytest
from helpers.run_operator import floats, integers, run

from vdla.compiler import operators as ops
from vdla.compiler import te
from vdla.compiler.operators import OperatorError, log_softmax, softmax

AXES = [None, 0, -1, (0, 2), (-2,), (2, 1), (0, 1, 2)]


def logsumexp(x, axis, keepdims):
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isinf(top), 0, top)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis if axis is not None else (0, 1, 2))


FLOAT_MODELS = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "sum_square": lambda x, axis, keepdims: np.sum(x * x, axis=axis, keepdims=keepdims),
    "l1_norm": lambda x, axis, keepdims: np.sum(np.abs(x), axis=axis, keepdims=keepdims),
    "l2_norm": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
    "log_sum": lambda x, axis, keepdims: np.log(np.sum(x, axis=axis, keepdims=keepdims)),
    "logsumexp": logsumexp,
}


@pytest.mark.sampled
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", FLOAT_MODELS)
def test_float_reductions_along_any_axes_equal_numpy(name, axes, keepdims):
    x = floats((3, 4, 5), low=0.5, high=2)
    expected = FLOAT_MODELS[name](x.astype(np.float64), axis=axes, keepdims=keepdims)
    got = run(lambda t: getattr(ops, name)(t, axes, keepdims), x)
    np.testing.assert_allclose(got, np.reshape(expected, np.shape(expected) or (1,)), rtol=1e-5)
    assert got.dtype == np.float32


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "sum_square"])
def test_integers_wrap_in_their_own_dtype(name, dtype):
    x = integers((4, 6), dtype, low=0 if dtype == "uint8" else -100, high=100)
    model = FLOAT_MODELS[name](x.astype(np.int64), axis=1, keepdims=False).astype(dtype)
    np.testing.assert_array_equal(run(lambda t: getattr(ops, name)(t, 1), x), model)


def test_logsumexp_of_large_and_infinite_elements():
    x = np.array([[1000, 1001, 999], [-2000, -2000, -2000], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 1]], np.float32)
    expected = [1001.4076, -2000 + np.log(3), -np.inf, np.inf]
    np.testing.assert_allclose(run(lambda t: ops.logsumexp(t, 1), x), expected, rtol=1e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_and_argmin_select_the_first_or_the_last(name, axis, keepdims):
    x = integers((3, 4, 5), "int8", low=-3, high=3)
    model = getattr(np, name)
    got = run(lambda t: getattr(ops, name)(t, axis, keepdims), x)
    np.testing.assert_array_equal(got, model(x, axis=axis, keepdims=keepdims))
    assert got.dtype == np.int64
    backwards = x.shape[axis] - 1 - model(np.flip(x, axis), axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(
        run(lambda t: getattr(ops, name)(t, axis, keepdims, select_last_index=True), x), backwards
    )


def test_nan_is_the_maximum_as_in_numpy():
    x = np.array([[1, np.nan, 5], [-np.inf, -np.inf, -np.inf]], np.float32)
    np.testing.assert_array_equal(run(lambda t: ops.argmax(t, 1), x), np.argmax(x, 1))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_and_log_softmax_equal_numpy(axis):
    x = floats((3, 4, 5), low=-30, high=1000)
    shifted = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
    powers = np.exp(shifted)
    shares = powers / powers.sum(axis=axis, keepdims=True)
    got = run(lambda t: softmax(t, axis), x)
    np.testing.assert_allclose(got, shares, rtol=1e-5, atol=1e-37)
    np.testing.assert_allclose(got.sum(axis=axis), 1, rtol=1e-6)
    logs = shifted - np.log(powers.sum(axis=axis, keepdims=True))
    np.testing.assert_allclose(run(lambda t: log_softmax(t, axis), x), logs, rtol=1e-5, atol=1e-6)


ELEMENTWISE_MODELS = {
    "sum_square": np.square,
    "l1_norm": np.abs,
    "l2_norm": np.abs,
    "log_sum": np.log,
}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FLOAT_MODELS)
def test_a_reduction_over_no_axes_is_the_identity(name, dtype, keepdims):
    x = floats((3, 4), low=0.5, high=2).astype(dtype)
    got = run(lambda t: getattr(ops, name)(t, (), keepdims), x)
    assert (got.dtype, got.shape) == (x.dtype, x.shape)
    np.testing.assert_allclose(got, ELEMENTWISE_MODELS.get(name, np.copy)(x), rtol=2e-3 if dtype == "float16" else 1e-6)


def test_a_reduction_over_no_axes_keeps_infinities_and_integers():
    x = np.array([-np.inf, np.inf, np.nan, 0], np.float32)
    np.testing.assert_array_equal(run(lambda t: ops.logsumexp(t, []), x), x)
    np.testing.assert_array_equal(run(lambda t: ops.sum_square(t, []), integers(8, "int8")), integers(8, "int8") ** 2)


def test_axes_may_be_an_array():
    x = integers((3, 4, 5))
    np.testing.assert_array_equal(run(lambda t: ops.sum(t, np.array([0, -1])), x), x.sum((0, 2)))


X = te.placeholder((3, 4), "float32", "x")
I = te.placeholder((3, 4), "int32", "i")  # noqa: E741


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ops.sum(X, 2), "sum: axis must be in -2..1, got 2"),
        (lambda: ops.sum(X, (0, -2)), "sum: axes must name each dimension once, got [0, -2]"),
        (lambda: ops.sum(X, (0, "1")), "sum: every axis must be an integer, got '1'"),
        (lambda: ops.mean(I), "mean: x must be of a float dtype, got int32"),
        (lambda: softmax(I), "softmax: x must be of a float dtype, got int32"),
        (lambda: softmax(X, 5), "softmax: axis must be in -2..1, got 5"),
    ],
)
def test_invalid_reduction_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message
