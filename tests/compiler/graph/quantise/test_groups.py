# SPDX-License-Identifier: Apache-2.0
"""Weights of four bits in groups: exact scales, small errors, odd sizes."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vdla.compiler.graph.integer.common_scale import MOST_FACTOR, common_scale
from vdla.compiler.graph.quantise import QuantiseError
from vdla.compiler.graph.quantise.groups import quantise_groups


def weight_of(seed, outputs, inputs):
    rng = np.random.default_rng(seed)
    spread = np.exp2(rng.integers(-6, 7, (outputs, 1)) + rng.standard_normal((outputs, inputs)))
    return (rng.standard_normal((outputs, inputs)) * spread).astype(np.float32)


@given(
    seed=st.integers(0, 999), outputs=st.integers(1, 5), inputs=st.integers(1, 90), size=st.integers(2, 40),
    axis=st.sampled_from([0, 1]),
)  # fmt: skip
@example(seed=0, outputs=5, inputs=36, size=22, axis=0)  # a maximum is clipped for the sake of the others
def test_a_weight_is_a_number_times_a_factor_times_a_scale(seed, outputs, inputs, size, axis):
    weight = weight_of(seed, outputs, inputs)
    made = quantise_groups("w", weight if axis == 0 else weight.T, axis, size, np.zeros(outputs))
    values, numbers, factors, scales = (
        np.moveaxis(array, axis, 0) for array in (made.values, made.numbers, made.factors, made.block_scales)
    )
    assert made.axis == 1 - axis
    for output in range(outputs):
        for at in range(inputs):
            factor = int(factors[output, at // size])
            assert 1 <= factor <= MOST_FACTOR
            assert -8 <= numbers[output, at] <= 7
            assert values[output, at] == numbers[output, at] * factor
            assert float(scales[output, at // size]) == float(made.scale[output]) * factor  # no rounding
    error = values * made.scale[:, None].astype(float) - weight
    # Factors that cover the maxima of groups are tried: half of a factor and of a scale at most.
    most = np.abs(weight).max(axis=1) / 7 * (1 + 1 / 16) / 2
    assert (np.square(error).sum(axis=1) <= inputs * np.square(most) * 1.0001).all()


def test_the_error_is_less_than_that_of_groups_rounded_to_their_maxima():
    weight = np.random.default_rng(1).standard_normal((64, 320)).astype(np.float32)
    made = quantise_groups("w", weight, 0, 32, np.zeros(64))
    groups = weight.reshape(64, -1, 32)
    step = np.abs(groups).max(axis=2, keepdims=True) / 7
    plain = ((np.rint(groups / step) * step - groups) ** 2).mean()
    assert ((made.values * made.scale[:, None] - weight) ** 2).mean() < 0.9 * plain


def test_zeros_and_least_scales():
    weight = np.zeros((2, 40), np.float32)
    weight[1, :3] = 1e-3
    made = quantise_groups("w", weight, 0, 32, np.array([0.0, 0.5]))
    assert not made.values[0].any() and made.scale[0] == 1
    assert made.scale[1] >= 0.5
    assert made.raised == (1,)


def test_weights_that_are_not_finite_are_refused():
    with pytest.raises(QuantiseError, match=f"^{re.escape('w must be finite, got inf in 1 of 64')}$"):
        quantise_groups("w", np.where(np.arange(64) == 3, np.inf, 0).reshape(2, 32), 0, 32, np.zeros(2))


@given(st.integers(0, 999))
def test_scales_that_have_a_common_one_and_others(seed):
    rng = np.random.default_rng(seed)
    factors = rng.integers(1, MOST_FACTOR + 1, (rng.integers(1, 6), 3))
    scales = (factors * np.float32([0.5, 3.0, 2.0**-20])).astype(np.float32)
    scale, whole = common_scale(scales)
    np.testing.assert_array_equal(scale * whole, scales)
    assert (whole >= 1).all() and (whole <= factors).all()
    assert common_scale(np.float32([[1.0], [1.03]])) is None
    assert common_scale(np.float32([[1.0], [17.0]])) is None
