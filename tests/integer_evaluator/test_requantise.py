# SPDX-License-Identifier: Apache-2.0
"""The requantiser of the evaluator against fractions, and results computed by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.integer_evaluator.quantised import limits, quantised_real
from helpers.integer_evaluator.requantise import (
    LARGEST_DENOMINATOR,
    multiplier_and_shift,
    product_scale,
    residual_factors,
    scaled,
    wrapped,
)

HUGE = 2**40


def test_ties_round_to_even() -> None:
    sums = np.array([1, 3, 5, 7, -1, -3, -5, -7, 2, -2])
    assert scaled(sums, np.float32(0.5)).tolist() == [0, 2, 2, 4, 0, -2, -2, -4, 1, -1]
    assert scaled(sums, np.float32(0.25)).tolist() == [0, 1, 1, 2, 0, -1, -1, -2, 0, 0]


def test_scales_of_channels() -> None:
    """3 * 1.5 = 4.5 -> 4; 3 * 0.5 = 1.5 -> 2; -6 * 0.75 = -4.5 -> -4."""
    assert scaled(np.array([[3, 3, -6]]), np.array([1.5, 0.5, 0.75], np.float32)).tolist() == [[4, 2, -4]]


def test_multiplier_has_24_bits_and_is_exact() -> None:
    scales = np.random.default_rng(0).random(1000, np.float32) * 2.0 ** np.arange(-500, 500).clip(-100, 20)
    scales = scales.astype(np.float32)
    for scale, multiplier, shift in zip(scales, *multiplier_and_shift(scales), strict=True):
        assert 2**23 <= multiplier < 2**24
        assert Fraction(int(multiplier)) / Fraction(2) ** int(shift) == Fraction(float(scale))


@pytest.mark.parametrize("exponent", [-149, -130, -60, -45, -31, -24, -12, -3, 0, 1, 7])
def test_random_sums_round_as_fractions_do(exponent: int) -> None:
    rng = np.random.default_rng(exponent + 200)
    sums = np.concatenate([rng.integers(-(2**31), 2**31, 300), rng.integers(-300, 300, 300), [-(2**31), 2**31 - 1]])
    scales = np.ldexp(rng.integers(1, 2**9, len(sums)) / 2**8, exponent).astype(np.float32)
    expected = [round(int(s) * Fraction(float(scale))) for s, scale in zip(sums, scales, strict=True)]
    assert scaled(sums, scales).tolist() == expected


def test_large_scales_saturate() -> None:
    assert scaled(np.array([-1, 0, 1]), np.float32(2.0**60)).tolist() == [-HUGE, 0, HUGE]


def test_sums_wrap_in_int32() -> None:
    sums = np.array([2**31 - 1, 2**31, -(2**31) - 1, 2**33 + 5])
    assert wrapped(sums).tolist() == [2**31 - 1, -(2**31), 2**31 - 1, 5]
    assert scaled(np.array([2**32 + 4]), np.float32(1)).tolist() == [4]


def test_scales_are_composed_in_float32() -> None:
    """Of this triple a division in float64 rounds to another float32."""
    rng = np.random.default_rng(3)
    sx, sw, sy = (rng.random(1000, np.float32) for _ in range(3))
    exact = (sx.astype(np.float64) * sw / sy).astype(np.float32)
    composed = product_scale(sx, sw, sy)
    assert composed.dtype == np.float32
    assert (composed == (sx * sw) / sy).all()
    assert 0 < (composed != exact).mean() < 0.5


@pytest.mark.parametrize(
    ("sa", "sb", "expected"),
    [
        (0.5, 0.5, (1, 1, 0.5, 1)),
        (0.5, 0.25, (2, 1, 0.5, 2)),
        (0.125, 1.0, (1, 8, 1.0, 8)),
        (2.0**-20, 1.0, (0, 1, 1.0, 1)),
    ],
)
def test_factors_of_residual_sums(sa: float, sb: float, expected: tuple[int, int, float, int]) -> None:
    a, b, larger, denominator = residual_factors(np.float32(sa), np.float32(sb))
    assert (a, b, float(larger), denominator) == expected


def test_random_factors_are_close_to_the_ratio() -> None:
    rng = np.random.default_rng(4)
    for sa, sb in rng.uniform(0.01, 1, (200, 2)).astype(np.float32):
        a, b, larger, denominator = residual_factors(sa, sb)
        assert max(a, b) == denominator <= LARGEST_DENOMINATOR
        assert larger == max(sa, sb)
        assert abs(a / b - float(sa) / float(sb)) <= 1e-4 * a / b


def test_quantisation_rounds_to_even_and_saturates() -> None:
    real = np.array([0.5, 1.5, -0.5, 300.0, -300.0, np.inf], np.float32)
    zero_point = np.array(3)
    assert quantised_real(real, np.float32(1), zero_point, np.dtype("int8")).tolist() == [3, 5, 3, 127, -128, 127]
    assert quantised_real(real, np.float32(2), zero_point, np.dtype("uint8")).tolist() == [3, 4, 3, 153, 0, 255]


def test_limits_of_element_types() -> None:
    types = [np.dtype(name) for name in ("int8", "uint8", "int16", "uint16", "int32")]
    assert [limits(dtype) for dtype in types] == [
        (-128, 127),
        (0, 255),
        (-(2**15), 2**15 - 1),
        (0, 2**16 - 1),
        (-(2**31), 2**31 - 1),
    ]
