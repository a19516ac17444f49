# SPDX-License-Identifier: Apache-2.0
"""Normalisation against NumPy in float64."""

import numpy as np
import pytest
from helpers.run_operator import floats, run

from vdla.compiler import operators as ops
from vdla.compiler import te
from vdla.compiler.operators import OperatorError


def normal(x, axes, epsilon):
    x = x.astype(np.float64)
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)


def near(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4, 5), 1), ((6, 7), -1), ((3, 4, 2), 0)])
def test_batch_norm_equals_numpy(shape, axis):
    x = floats(shape)
    scale, bias, mean, variance = (floats(shape[axis], seed=n, low=0.1) for n in range(4))
    others = [d for d in range(len(shape)) if d != axis % len(shape)]
    wide = [np.expand_dims(p, others) for p in (scale, bias, mean, variance)]
    expected = (x - wide[2]) / np.sqrt(wide[3] + 0.01) * wide[0] + wide[1]
    near(run(lambda *t: ops.batch_norm(*t, epsilon=0.01, axis=axis), x, scale, bias, mean, variance), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_layer_norm_equals_numpy(axis):
    x = floats((3, 4, 5)) + 1000
    axes = tuple(range(axis % 3, 3))
    scale, bias = floats(x.shape[axes[0] :], seed=1), floats(x.shape[axes[0] :], seed=2)
    expected = normal(x, axes, 1e-3) * scale + bias
    near(run(lambda t, s, b: ops.layer_norm(t, s, b, axis, 1e-3), x, scale, bias), expected)
    near(run(lambda t: ops.layer_norm(t, axis=axis), floats((3, 4, 5))), normal(floats((3, 4, 5)), axes, 1e-5))


FAR = (1000 + 0.01 * np.random.default_rng(3).standard_normal((4, 6, 8, 32))).astype(np.float32)
OF_CHANNELS = np.ones(6, np.float32), np.zeros(6, np.float32)


@pytest.mark.parametrize(
    ("build", "axes"),
    [
        (lambda t, *_: ops.layer_norm(t, axis=1, epsilon=0), (1, 2, 3)),
        (lambda t, *_: ops.layer_norm(t, axis=-1, epsilon=0), (3,)),
        (lambda t, s, b: ops.instance_norm(t, s, b, 0), (2, 3)),
        (lambda t, s, b: ops.group_norm(t, s, b, 3, 0), (2, 3, 4)),
    ],
    ids=["layer", "row", "instance", "group"],
)
def test_a_mean_far_above_the_spread_costs_no_digits(build, axes):
    x = FAR.reshape(4, 3, 2, 8, 32) if len(axes) == 3 and axes[0] == 2 else FAR
    expected = normal(x, axes, 0).reshape(FAR.shape)
    np.testing.assert_allclose(run(build, FAR, *OF_CHANNELS), expected, rtol=1e-5, atol=1e-5)


def test_an_outlier_in_the_first_element_costs_no_digits_of_the_others():
    x = floats((2, 64))
    x[:, 0] = 1e5
    np.testing.assert_allclose(run(ops.layer_norm, x, ulps=256), normal(x, (1,), 1e-5), rtol=1e-4, atol=1e-6)


def test_a_running_mean_far_above_the_spread_costs_no_digits():
    scale, bias = floats(6, seed=1, low=0.5), floats(6, seed=2)
    mean, variance = np.full(6, 1000, np.float32), np.full(6, 1e-4, np.float32)
    wide = [p[:, None, None].astype(np.float64) for p in (scale, bias, mean, variance)]
    expected = (FAR - wide[2]) / np.sqrt(wide[3]) * wide[0] + wide[1]
    got = run(lambda *t: ops.batch_norm(*t, epsilon=0), FAR, scale, bias, mean, variance)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_rms_norm_equals_numpy():
    x, scale = floats((3, 8)), floats(8, seed=1)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    near(run(lambda t: ops.rms_norm(t), x), expected)
    near(run(lambda t, s: ops.rms_norm(t, s), x, scale), expected * scale)


@pytest.mark.parametrize("shape", [(2, 3, 10), (2, 6, 4, 5)])
def test_instance_norm_equals_numpy(shape):
    x, scale, bias = floats(shape), floats(shape[1], seed=1), floats(shape[1], seed=2)
    one = (-1, *(1 for _ in shape[2:]))
    expected = normal(x, tuple(range(2, len(shape))), 1e-5) * scale.reshape(one) + bias.reshape(one)
    near(run(ops.instance_norm, x, scale, bias), expected)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_equals_numpy(groups):
    x, scale, bias = floats((2, 6, 4, 5)), floats(6, seed=1), floats(6, seed=2)
    grouped = x.reshape(2, groups, 6 // groups, 4, 5)
    expected = normal(grouped, (2, 3, 4), 1e-5).reshape(x.shape) * scale[:, None, None] + bias[:, None, None]
    near(run(lambda *t: ops.group_norm(*t, num_groups=groups), x, scale, bias), expected)


X = te.placeholder((2, 6, 4), "float32", "x")
P, Q = te.placeholder((6,), "float32", "p"), te.placeholder((4,), "float32", "q")
D = te.placeholder((6,), "float64", "d")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ops.batch_norm(X, P, P, P, Q), "batch_norm: variance must have the shape [6], got [4]"),
        (lambda: ops.batch_norm(X, P, P, D, P), "batch_norm: mean must have the dtype float32 of x, got float64"),
        (lambda: ops.layer_norm(X, P), "layer_norm: scale must have the shape [4], got [6]"),
        (lambda: ops.layer_norm(X, Q, X), "layer_norm: bias must have 1 dimension, got 3"),
        (lambda: ops.batch_norm(X, P, P, P, P, "a"), "batch_norm: epsilon must be a number, got 'a'"),
        (lambda: ops.layer_norm(X, epsilon=None), "layer_norm: epsilon must be a number, got None"),
        (lambda: ops.group_norm(X, P, P, 4), "group_norm: num_groups must divide the 6 channels, got 4"),
        (lambda: ops.instance_norm(P, P, P), "instance_norm: x must have at least 3 dimensions, got 1"),
    ],
)
def test_invalid_normalisation_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message
