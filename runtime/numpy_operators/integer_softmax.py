# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's softmax of int8 in NumPy, in fixed point throughout."""

from __future__ import annotations

import numpy as np

from vdla.hardware.fixed_point import divide_by_power, multiply_high
from vdla.runtime.numpy_operators.function import Array
from vdla.runtime.numpy_operators.requantise import Int8, Int64

_SUM_BITS = 12  # integer bits of a sum of exponentials
_ONE = (1 << 31) - 1
_48_OVER_17, _32_OVER_17 = 1515870810, -1010580540  # with 29 fractional bits
_STEPS = 3


def qsoftmax(x: Int8, *, exponentials: Array) -> Int8:
    """Along the last dimension; `exponentials` of differences from -255 to 0 have 31 bits."""
    if not x.size:
        return x.copy()
    differences = x.astype(np.int64) - x.max(axis=-1, keepdims=True)
    powers = exponentials.astype(np.int64)[(differences + 255).astype(np.intp)]
    total = divide_by_power(powers, _SUM_BITS).sum(axis=-1, keepdims=True)
    headroom, reciprocal = _reciprocal(total)
    result = divide_by_power(multiply_high(reciprocal, powers), _SUM_BITS - headroom + 31 - 8)
    return np.asarray(np.clip(result - 128, -128, 127), np.int8)


def _reciprocal(total: Int64) -> tuple[Int64, Int64]:
    """The leading zeros of sums in 32 bits, and one over the sums without them, in 31 bits."""
    headroom = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    half = ((total << headroom) - (1 << 31) + _ONE + 1) >> 1
    x = multiply_high(half, _32_OVER_17) + _48_OVER_17
    for _ in range(_STEPS):
        x = x + (multiply_high(x, (1 << 29) - multiply_high(half, x)) << 2)
    return headroom, np.minimum(x << 1, _ONE)
