# SPDX-License-Identifier: Apache-2.0
"""Factors of scales against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.hardware.factors import MAX_FACTOR, ratio, residual_factors, slope_factors
from vdla.hardware.numerics import NumericsError, scale_from_float

scales = st.floats(2.0**-20, 2.0**10, width=32)


@given(scales, scales)
def test_a_ratio_is_the_nearest_of_small_integers(a: float, b: float) -> None:
    first, second = ratio(a, b)
    assert 0 <= min(first, second) <= max(first, second) <= MAX_FACTOR
    small, large = (first, second) if a < b else (second, first)
    exact = Fraction(min(a, b)) / Fraction(max(a, b))
    assert abs(Fraction(small, large) - exact) <= Fraction(1, 2 * MAX_FACTOR)
    assert Fraction(small, large).denominator == large
    assert ratio(b, a) == (second, first)


@given(scales, scales, scales)
def test_residual_factors_give_the_real_sum(a: float, b: float, y: float) -> None:
    """Within the error of the smaller factor and the float32."""
    (first, second), factor = residual_factors(a, b, y)
    assert factor.dtype == np.float32
    for scale, integer in ((a, first), (b, second)):
        error = abs(float(factor) * integer - scale / y)
        assert error <= max(a, b) / y * (0.5 / MAX_FACTOR + 2.0**-22)


def test_residual_factors_of_known_scales() -> None:
    assert residual_factors(0.5, 0.5, 1.0) == ((1, 1), 0.5)
    assert residual_factors(0.75, 0.5, 1.0) == ((3, 2), 0.25)
    assert residual_factors(0.5, 0.75, 0.25) == ((2, 3), 1.0)
    assert residual_factors(1.0, 3.0, 1.0) == ((1, 3), 1.0)
    assert residual_factors(1e-6, 1.0, 1.0) == ((0, 1), 1.0)
    (first, second), factor = residual_factors(np.float32(0.1), np.float32(0.3), np.float32(0.05))
    assert (first, second) == (1, 3)
    assert factor == np.float32(np.float32(0.3) / np.float32(np.float32(0.05) * np.float32(3)))


def test_a_slope_is_a_fraction() -> None:
    assert slope_factors(0.5, 0.25, 0.125) == ((2, 1), 1.0)
    assert slope_factors(0.0, 0.25, 0.25) == ((1, 0), 1.0)
    factors, factor = slope_factors(0.01, 0.1, 0.2)
    assert factors == (100, 1)
    assert factor == np.float32(np.float32(0.1) / np.float32(np.float32(0.2) * np.float32(100)))
    with pytest.raises(NumericsError) as refused:
        slope_factors(1.5, 1.0, 1.0)
    assert str(refused.value) == "slope_factors: slope must be from 0 to 1, got 1.5"


@given(st.floats(2.0**-39, 2.0**23, width=32))
def test_a_multiplier_and_a_shift_hold_a_float32_exactly(real: float) -> None:
    mult, shift = scale_from_float(real)
    assert Fraction(mult, 1 << shift) == Fraction(real)


@given(st.floats(2.0**-39, 2.0**23))
def test_a_float64_is_rounded_as_float32_is(real: float) -> None:
    mult, shift = scale_from_float(real)
    assert Fraction(mult, 1 << shift) == Fraction(float(np.float32(real)))


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf"), float("nan"), 1e-60])
def test_scales_must_be_positive(wrong: float) -> None:
    with pytest.raises(NumericsError) as refused:
        residual_factors(1.0, wrong, 1.0)
    assert str(refused.value) == f"ratio: scale must be a positive float32, got {wrong}"
