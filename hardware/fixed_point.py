# SPDX-License-Identifier: Apache-2.0
"""The fixed-point rescaling of TensorFlow Lite's reference kernels, in NumPy.

A real factor is a multiplier of 31 bits and a left shift, which is negative for a right one. A
product is rounded twice: half up where the multiplier's 31 bits are dropped, then half away from
zero at the right shift. Dense layers round once instead, half up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vdla.support.arrays import Array, Ints

EXTRA_BITS = 20
"""Bits that operands of a sum gain before they are rescaled."""
_BITS = 31
_LEAST_SHIFT = -31


def fixed_point(real: ArrayLike, *, once: bool = False) -> Ints:
    """[3, n]: multipliers of 31 bits, left shifts, whether to round once, of `n` real factors."""
    significand, shift = np.frexp(np.atleast_1d(np.asarray(real, np.float64)))
    multiplier = np.floor(np.ldexp(significand, _BITS) + 0.5).astype(np.int64)
    rounded_up = multiplier == 1 << _BITS
    multiplier, shift = np.where(rounded_up, 1 << (_BITS - 1), multiplier), shift.astype(np.int64) + rounded_up
    too_small = shift < _LEAST_SHIFT
    numbers = np.where(too_small, 0, multiplier), np.where(too_small, 0, shift)
    return np.stack([*numbers, np.full(shift.shape, once, np.int64)])


def scale_fixed_point(values: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, once: ArrayLike = 0) -> Ints:
    """int32 values times multipliers and 2**shift; shapes broadcast."""
    wide, amount = np.asarray(values).astype(np.int64), np.asarray(shift, np.int64)
    right, at_once = np.maximum(-amount, 0), np.asarray(once, np.int64)
    dropped = _BITS + right * at_once
    product = (wide << np.maximum(amount, 0)) * np.asarray(multiplier, np.int64)
    return divide_by_power((product + (np.int64(1) << (dropped - 1))) >> dropped, right * (1 - at_once))


def multiply_high(a: ArrayLike, b: ArrayLike) -> Ints:
    """a * b / 2**31, rounded half up."""
    product = np.asarray(a).astype(np.int64) * np.asarray(b, np.int64)
    return np.asarray((product + (1 << (_BITS - 1))) >> _BITS, np.int64)


def divide_by_power(values: ArrayLike, exponent: ArrayLike) -> Ints:
    """values / 2**exponent, rounded half away from zero."""
    wide, amount = np.asarray(values).astype(np.int64), np.asarray(exponent, np.int64)
    half = (np.int64(1) << amount) >> 1
    below_zero = (wide < 0) & (amount > 0)
    return np.asarray((wide + half - below_zero) >> amount, np.int64)


def pack_fixed_point(numbers: Ints) -> Array:
    """Fixed-point factors [3, n] as int64: the multiplier in 31 bits, then a byte for each shift.

    The shifts are one to the left, a right shift with the second rounding, and one with the first.
    """
    multiplier, shift, once = numbers
    right = np.maximum(-shift, 0)
    return np.asarray(multiplier | np.maximum(shift, 0) << 32 | right * (1 - once) << 40 | right * once << 48, np.int64)


def divide_half_away(values: Ints, count: ArrayLike) -> Ints:
    """values / count, rounded half away from zero."""
    divisor = np.asarray(count, np.int64)
    return np.asarray(np.sign(values) * ((np.abs(values) + divisor // 2) // divisor), np.int64)
