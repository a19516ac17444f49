# SPDX-License-Identifier: Apache-2.0
"""From sums to results: a multiplier of 24 bits and a shift, rounded half to even, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from helpers.integer_evaluator.quantised import Array

SIGNIFICAND_BITS = 24
LARGEST_DENOMINATOR = 32767  # of the factors of a residual sum
_FURTHEST = 62  # products have fewer than 56 bits, so a longer shift gives 0
_HUGE = 2**40  # beyond every element type


def multiplier_and_shift(scale: Array) -> tuple[Array, Array]:
    """Integers with scale = multiplier / 2^shift, for positive float32 values."""
    fraction, exponent = np.frexp(scale.astype(np.float64))
    multiplier = np.ldexp(fraction, SIGNIFICAND_BITS).astype(np.int64)
    return multiplier, SIGNIFICAND_BITS - exponent.astype(np.int64)


def wrapped(sums: Array) -> Array:
    """int64 sums as the int32 accumulator holds them."""
    return (sums + 2**31) % 2**32 - 2**31


def scaled(sums: Array, scale: Array) -> Array:
    """round(wrapped sums * scale), half to even; `scale` float32 broadcasts."""
    multiplier, shift = multiplier_and_shift(np.asarray(scale, np.float32))
    product = wrapped(sums) * multiplier
    right = np.clip(shift, 0, _FURTHEST)
    floor = product >> right
    rest = product - (floor << right)
    half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 1)
    rounded = floor + ((rest > half) | ((rest == half) & (floor % 2 == 1)))
    return np.where(shift < 0, np.sign(product) * _HUGE, np.where(shift > _FURTHEST, 0, rounded))


def float32(value: Array | float) -> Array:
    """One rounding to float32."""
    return np.asarray(value, np.float32)


def product_scale(sx: Array, sw: Array, sy: Array) -> Array:
    """(sx * sw) / sy, rounded after each operation."""
    return float32(float32(sx * sw) / sy)


def residual_factors(sa: Array, sb: Array) -> tuple[int, int, Array, int]:
    """The factors of both operands of a sum, the larger scale, and the denominator."""
    exact_a, exact_b = Fraction(float(sa)), Fraction(float(sb))
    ratio = (min(exact_a, exact_b) / max(exact_a, exact_b)).limit_denominator(LARGEST_DENOMINATOR)
    small, large = ratio.numerator, ratio.denominator
    return (small, large, sb, large) if exact_a < exact_b else (large, small, sa, large)
