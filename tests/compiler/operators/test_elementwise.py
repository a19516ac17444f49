# SPDX-License-Identifier: Apache-2.0
"""Activations and functions of one element, against NumPy."""

import math

import numpy as np
import pytest
from helpers.run_operator import close, floats, integers, run

from vdla.compiler import operators as ops
from vdla.compiler import te
from vdla.compiler.operators import OperatorError

WIDE = np.array([-1000, -90, -20, -9, -1.5, -1e-4, -0.0, 0, 1e-4, 0.5, 3, 9, 20, 90, 1000], np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.longdouble)))


def softplus(x):
    return np.logaddexp(0, x.astype(np.longdouble))


def erf(x):
    return np.vectorize(math.erf)(x.astype(float))


MODELS = {
    "exp": np.exp,
    "sqrt": lambda x: np.sqrt(x),
    "log": np.log,
    "tanh": np.tanh,
    "reciprocal": lambda x: 1 / x,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "elu": lambda x: np.where(x < 0, np.exp(x) - 1, x),
    "selu": lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * (np.exp(x) - 1), x),
    "celu": lambda x: np.maximum(x, 0) + np.minimum(np.exp(x) - 1, 0),
    "thresholded_relu": lambda x: np.where(x > 1, x, 0),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x: x / 2 * (1 + erf(x / np.sqrt(2))),
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "square": lambda x: x * x,
    "absolute": np.abs,
    "sign": np.sign,
    "negative": lambda x: -x,
    "identity": lambda x: x,
}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_float_functions_equal_the_model(name, dtype):
    x = floats((3, 5, 7), dtype, seed=len(name))
    with np.errstate(all="ignore"):
        expected = MODELS[name](x.astype(np.longdouble)).astype(dtype)
        got = run(lambda t: getattr(ops, name)(t), x)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(got, expected, rtol=40 * eps, atol=8 * eps)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "softplus", "softsign", "hard_swish", "relu6"])
def test_extreme_values_stay_finite_and_accurate(name):
    with np.errstate(over="ignore", under="ignore"):
        expected = MODELS[name](WIDE.astype(np.longdouble)).astype(np.float32)
    np.testing.assert_allclose(run(lambda t: getattr(ops, name)(t), WIDE), expected, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("name", ["relu", "relu6", "square", "absolute", "sign", "negative", "identity"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integer_functions_equal_the_model(name, dtype):
    x = np.array([np.iinfo(dtype).min, -7, -1, 0, 1, 6, 7, 11, np.iinfo(dtype).max], dtype)
    with np.errstate(over="ignore"):
        expected = MODELS[name](x).astype(dtype)
    np.testing.assert_array_equal(run(lambda t: getattr(ops, name)(t), x), expected)


def test_unsigned_integers_have_a_magnitude_and_a_sign():
    x = np.array([0, 1, 200, 255], np.uint8)
    np.testing.assert_array_equal(run(ops.absolute, x), x)
    np.testing.assert_array_equal(run(ops.sign, x), [0, 1, 1, 1])


def test_negative_and_sign_handle_zero_and_nan():
    x = np.array([np.nan, 0.0, -0.0], np.float32)
    got = run(ops.negative, x)
    assert np.isnan(got[0]) and np.signbit(got[1:]).tolist() == [True, False]
    assert np.isnan(run(ops.sign, x)[0])


@pytest.mark.parametrize(("low", "high"), [(-1, None), (None, 2), (-1, 2), (None, None)])
def test_clip_with_none_one_or_two_bounds(low, high):
    for x in (floats((4, 9)), integers((4, 9), "int8")):
        expected = np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)
        np.testing.assert_array_equal(run(lambda t: ops.clip(t, low, high), x), expected)


def test_activations_with_options_equal_numpy():
    x = floats((50,))
    close(run(lambda t: ops.leaky_relu(t, 0.3), x), np.where(x < 0, np.float32(0.3) * x, x))
    close(run(lambda t: ops.elu(t, 2.5), x), np.where(x < 0, 2.5 * (np.exp(x) - 1), x))
    close(run(lambda t: ops.celu(t, 2.0), x), np.where(x < 0, 2.0 * (np.exp(x / 2) - 1), x))
    close(run(lambda t: ops.hard_sigmoid(t, 0.5, 0.25), x), np.clip(x * np.float32(0.5) + np.float32(0.25), 0, 1))
    tanh_form = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x.astype(np.float64) ** 3)))
    np.testing.assert_allclose(run(lambda t: ops.gelu(t, "tanh"), x), tanh_form, rtol=2e-5, atol=1e-6)


def test_casts_isnan_and_logical_not_equal_numpy():
    np.testing.assert_array_equal(run(ops.isnan, np.array([np.nan, 1, np.inf], np.float32)), [True, False, False])
    x = np.array([-1.7, 0, 2.9], np.float32)
    np.testing.assert_array_equal(run(lambda t: ops.cast(t, "int32"), x), [-1, 0, 2])
    np.testing.assert_array_equal(run(lambda t: ops.cast(t, "bool"), x), [True, False, True])
    np.testing.assert_array_equal(run(ops.logical_not, np.array([True, False])), [False, True])


X = te.placeholder((4,), "int8", "x")
B = te.placeholder((4,), "bool", "x")
F = te.placeholder((4,), "float32", "f")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ops.exp(X), "exp: x must be of a float dtype, got int8"),
        (lambda: ops.relu(B), "relu: x must be of a number dtype, got bool"),
        (lambda: ops.relu(3), "relu: x must be a te.Tensor, got 3"),
        (lambda: ops.logical_not(X), "logical_not: x must be of dtype bool, got int8"),
        (lambda: ops.gelu(X, "fast"), "gelu: approximate must be one of none, tanh, got 'fast'"),
        (lambda: ops.celu(X, 0), "celu: alpha must not be 0, got 0"),
        (lambda: ops.celu(X, None), "celu: alpha must be a number, got None"),
        (lambda: ops.clip(X, "a"), "clip: min must be a number, got 'a'"),
        (lambda: ops.leaky_relu(F, "a"), "leaky_relu: alpha must be a number, got 'a'"),
        (lambda: ops.elu(F, True), "elu: alpha must be a number, got True"),
        (lambda: ops.selu(F, 1, F), "selu: gamma must be a number, got <Tensor f>"),
        (lambda: ops.thresholded_relu(F, None), "thresholded_relu: alpha must be a number, got None"),
        (lambda: ops.hard_sigmoid(F, 1, "b"), "hard_sigmoid: beta must be a number, got 'b'"),
    ],
)
def test_invalid_elementwise_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message


def test_results_are_named_after_their_input():
    assert ops.relu(X).name == "x_relu"
    assert ops.relu(X, name="y").name == "y"
