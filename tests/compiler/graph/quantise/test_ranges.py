# SPDX-License-Identifier: Apache-2.0
"""Ranges and parameters: what each method keeps and what it clips."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vdla.compiler.graph.quantise import METHODS, QuantiseError, ValueStatistics, activation_parameters
from vdla.compiler.graph.quantise.parameters import quantise_weight

RANDOM = np.random.default_rng(0)


def statistics(values: np.ndarray) -> ValueStatistics:
    made = ValueStatistics("x")
    made.update(values.astype(np.float32).reshape(1, 1, -1))
    return made


def error(values: np.ndarray, given: tuple[float, float]) -> float:
    """The mean squared error of values quantised with a range."""
    found = activation_parameters(given)
    integers = np.clip(np.rint(values / found.scale) + found.zero_point, -128, 127)
    return float(np.mean(((integers - found.zero_point) * found.scale - values) ** 2))


def test_minmax_is_the_whole_range():
    assert METHODS["minmax"](statistics(np.array([-1.5, 0.25, 3.0]))) == (-1.5, 3.0)


def test_percentile_leaves_out_outliers():
    values = np.concatenate([RANDOM.standard_normal(100000), [1000.0, -800.0]])
    low, high = METHODS["percentile"](statistics(values))
    assert -6 < low < -3 and 3 < high < 6


def test_least_squares_clips_a_rare_outlier_and_keeps_a_uniform_range():
    normal = np.concatenate([RANDOM.standard_normal(1000000), [20.0]])
    low, high = METHODS["mse"](statistics(normal))
    assert high < 14
    assert error(normal, (low, high)) < 0.7 * error(normal, (normal.min(), normal.max()))
    uniform = RANDOM.uniform(-1, 2, 100000)
    low, high = METHODS["mse"](statistics(uniform))
    assert low < -0.95 and high > 1.9


def test_entropy_is_not_misled_by_the_zeros_of_a_relu():
    values = np.maximum(RANDOM.standard_normal(200000), 0)
    low, high = METHODS["entropy"](statistics(values))
    assert low == 0 and high > 2.5
    assert error(values, (low, high)) < 2 * error(values, METHODS["mse"](statistics(values)))


@pytest.mark.parametrize("method", METHODS)
def test_constant_values_have_parameters(method):
    found = activation_parameters(METHODS[method](statistics(np.zeros(10))))
    assert found.scale == 1 and found.zero_point == 0


def test_zero_is_exact():
    for low, high in [(0.0, 6.0), (-1.0, 2.0), (1.0, 5.0), (-3.0, -1.0)]:
        found = activation_parameters((low, high))
        assert -128 <= found.zero_point <= 127
        assert found.range[0] <= 0 <= found.range[1]
    assert activation_parameters((0.0, 6.0)).zero_point == -128


def test_weights_per_channel_and_per_tensor():
    weight = RANDOM.standard_normal((4, 3, 2, 2)) * np.array([1, 10, 100, 0]).reshape(4, 1, 1, 1)
    each = quantise_weight("w", weight, 0, least_squares=False)
    np.testing.assert_allclose(each.scale[:3], np.abs(weight[:3]).max(axis=(1, 2, 3)) / 127, rtol=1e-6)
    assert each.scale[3] == 1 and not each.values[3].any()
    assert np.abs(each.values[:3]).reshape(3, -1).max(axis=1).tolist() == [127, 127, 127]
    one = quantise_weight("w", weight, None, least_squares=False)
    assert one.scale.shape == (1,)


def test_least_squares_of_weights():
    weight = np.concatenate([RANDOM.standard_normal(100000), [8.0]]).reshape(1, -1)
    errors = []
    for least_squares in (False, True):
        found = quantise_weight("w", weight, 0, least_squares)
        errors.append(np.mean((found.values * found.scale[0] - weight) ** 2))
    assert errors[1] < 0.9 * errors[0]


def test_weights_that_are_not_finite_are_refused_by_name():
    weight = np.full((2, 2), np.nan)
    with pytest.raises(QuantiseError, match=f"^{re.escape('weight fc must be finite, got nan in 4 of 4')}$"):
        quantise_weight("weight fc", weight, 0, least_squares=True)
