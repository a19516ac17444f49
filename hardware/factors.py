# SPDX-License-Identifier: Apache-2.0
"""Factors of quantised operators: how scales become integers, the same on every device.

A scale is a float32; every operation on scales is rounded to float32. A multiplier and a shift hold
it exactly (`numerics.scales_from_floats`). The two factors of a residual addition are the ratio of
its scales as a fraction of small integers, and the multiplier carries the rest.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

import numpy as np

from vdla.hardware.numerics import NumericsError

MAX_FACTOR = 32767
"""The largest integer factor: an immediate of the vector unit."""

Scale = np.float32 | float


def ratio(first: Scale, second: Scale) -> tuple[int, int]:
    """Integers from 0 to MAX_FACTOR whose ratio is nearest to that of two positive scales."""
    a, b = Fraction(_scale("ratio", first)), Fraction(_scale("ratio", second))
    nearest = (min(a, b) / max(a, b)).limit_denominator(MAX_FACTOR)
    small, large = nearest.numerator, nearest.denominator
    return (small, large) if a < b else (large, small)


def residual_factors(a_scale: Scale, b_scale: Scale, y_scale: Scale) -> tuple[tuple[int, int], np.float32]:
    """The integer factors of a and b, and the float32 by which their sum is requantised.

    (a - a_zero_point) * factors[0] + (b - b_zero_point) * factors[1], times the float32, is y
    without its zero point.
    """
    factors = ratio(a_scale, b_scale)
    larger = max(_scale("residual_factors", a_scale), _scale("residual_factors", b_scale))
    return factors, over(larger, y_scale, max(factors))


UNIT_SLOPE = 128
"""The integer that stands for a slope of 1 where each channel has a slope of its own."""


def slope_factors(slope: float, x_scale: Scale, y_scale: Scale) -> tuple[tuple[int, int], np.float32]:
    """The integer factors of positive and of negative numbers, and the float32 of the result.

    The slope of negative numbers is from 0 to 1.
    """
    if not 0 <= slope <= 1:
        raise NumericsError(f"slope_factors: slope must be from 0 to 1, got {slope}")
    nearest = Fraction(float(np.float32(slope))).limit_denominator(MAX_FACTOR)
    return (nearest.denominator, nearest.numerator), over(x_scale, y_scale, nearest.denominator)


def over(scale: Scale, y_scale: Scale, factor: int) -> np.float32:
    """scale / (y_scale * factor) in float32: the multiplier of sums that an integer has scaled."""
    return np.float32(np.float32(scale) / np.float32(np.float32(y_scale) * np.float32(factor)))


def _scale(where: str, scale: Scale) -> float:
    """A scale as a Python float, which holds a float32."""
    value = float(np.float32(scale))
    if not (isfinite(value) and value > 0):
        raise NumericsError(f"{where}: scale must be a positive float32, got {scale}")
    return value
