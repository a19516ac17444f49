# SPDX-License-Identifier: Apache-2.0
"""One over the square root in fixed point, as TensorFlow Lite's reference kernels compute it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vdla.hardware.fixed_point import divide_by_power, multiply_high
from vdla.support.arrays import Ints

ROOT_OF_HALF = 1518500250  # with 31 fractional bits
STEPS = 5
_ONE = (1 << 31) - 1
_MOST = 29  # bits of a number that has headroom for the steps


def inverse_root(values: ArrayLike) -> tuple[Ints, Ints]:
    """1 / sqrt(v) of int32 values as multipliers of 31 bits and left shifts; of 0 as of 1.

    Newton's method on numbers with three integer bits, of values that are brought to 28 or 29 bits.
    """
    given = np.maximum(np.asarray(values).astype(np.int64), 1)
    bits = np.frexp(given.astype(np.float64))[1].astype(np.int64)
    pairs = (_MOST - bits) >> 1
    normal = np.where(pairs >= 0, given << np.maximum(2 * pairs, 0), given >> np.maximum(-2 * pairs, 0))
    multiplier, right = multiply_high(_newton(normal >> 1), ROOT_OF_HALF), 11 - pairs
    multiplier, right = multiplier << np.maximum(-right, 0), np.maximum(right, 0)
    is_one = given == 1
    return np.where(is_one, _ONE, multiplier), np.where(is_one, 0, -right)


def _newton(value: Ints) -> Ints:
    """1 / sqrt of numbers with 28 fractional bits: x (3 - v x^2) / 2, from 1."""
    half, x = divide_by_power(value, 1), np.full(value.shape, 1 << 28, np.int64)
    for _ in range(STEPS):
        cube = multiply_high(multiply_high(x, x), x) << 6
        x = (multiply_high(3 << 27, x) - multiply_high(half, cube)) << 3
    return x
