# SPDX-License-Identifier: Apache-2.0
"""The rescaling of TensorFlow Lite against a model in Python integers and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.hardware.fixed_point import divide_half_away, fixed_point, scale_fixed_point


def half_up(value: Fraction) -> int:
    return (value + Fraction(1, 2)).__floor__()


def half_away(value: Fraction) -> int:
    return half_up(value) if value >= 0 else -half_up(-value)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(2**30, 2**31 - 1), st.integers(-31, 0))
def test_a_product_is_rounded_half_up_and_then_half_away(value: int, multiplier: int, shift: int) -> None:
    wanted = half_away(Fraction(half_up(Fraction(value * multiplier, 2**31)), 2**-shift))
    assert scale_fixed_point(value, multiplier, shift) == wanted


@given(st.integers(-(2**31), 2**31 - 1), st.integers(2**30, 2**31 - 1), st.integers(-30, 0))
def test_a_product_that_is_rounded_once_is_rounded_half_up(value: int, multiplier: int, shift: int) -> None:
    assert scale_fixed_point(value, multiplier, shift, 1) == half_up(Fraction(value * multiplier, 2 ** (31 - shift)))


def test_a_left_shift_comes_before_the_product() -> None:
    assert scale_fixed_point([3, -3], 1 << 30, 3).tolist() == [12, -12]


@pytest.mark.parametrize(
    ("real", "multiplier", "shift"),
    [(1.0, 1 << 30, 1), (0.5, 1 << 30, 0), (0.3, 1288490189, -1), (0.0, 0, 0), (2.0**-40, 0, 0)],
)
def test_a_factor_has_31_bits(real: float, multiplier: int, shift: int) -> None:
    assert fixed_point(real).tolist() == [[multiplier], [shift], [0]]


def test_a_factor_that_rounds_up_to_the_next_power_keeps_31_bits() -> None:
    assert fixed_point(1 - 2.0**-40).tolist() == [[1 << 30], [1], [0]]


def test_means_are_rounded_half_away_from_zero() -> None:
    assert divide_half_away(np.array([5, -5, 4, -4, 6]), 2).tolist() == [3, -3, 2, -2, 3]
    assert divide_half_away(np.array([4, -4, 5]), 3).tolist() == [1, -1, 2]
