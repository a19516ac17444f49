# SPDX-License-Identifier: Apache-2.0
"""Fixed point, line by line of the description of the reference kernels."""

from __future__ import annotations

import numpy as np

from vdla.support.arrays import Array


def round_half_away(value: float) -> int:
    """A number rounded half away from zero."""
    return int(np.floor(abs(value) + 0.5)) * (1 if value >= 0 else -1)


def multiplier(real: float) -> tuple[int, int]:
    """The factor as q * 2**shift, q of 31 bits."""
    if real == 0:
        return 0, 0
    shift = 0
    while real < 0.5:
        real, shift = real * 2, shift - 1
    while real >= 1:
        real, shift = real / 2, shift + 1
    q = round_half_away(real * 2**31)
    return (q // 2, shift + 1) if q == 2**31 else (q, shift)


def doubling_high(a: Array, b: Array | int) -> Array:
    """The high half of twice the product, nudged by its sign and divided towards zero."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 2**30, 1 - 2**30)
    return np.where(nudged >= 0, nudged // 2**31, -(-nudged // 2**31))


def shift_right(x: Array, exponent: int) -> Array:
    """A division by a power of two that compares the remainder with a threshold."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + np.where(x < 0, 1, 0)
    return np.asarray((x >> exponent) + ((x & mask) > threshold))


def times_fixed(x: Array, q: int, shift: int) -> Array:
    """x * q * 2**shift, rounded twice."""
    return shift_right(doubling_high(x * 2 ** max(shift, 0), q), max(-shift, 0))


def times(x: Array, real: float) -> Array:
    """x times a factor, rounded twice."""
    return times_fixed(x, *multiplier(real))


def times_once(x: Array, real: float) -> Array:
    """x times a factor, rounded once."""
    q, shift = multiplier(real)
    return np.asarray((x * q + (1 << (30 - shift))) >> (31 - shift))


def inverse_root(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as q * 2**shift, q of 31 bits: five steps of Newton's method from 1."""
    if value <= 1:
        return 2**31 - 1, 0
    right = 11
    while value >= 2**29:
        value, right = value // 4, right + 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    value, right = value << 2 * pairs, right - pairs

    def high(p: int, q: int) -> int:
        return int(doubling_high(np.array(p), q))

    half, x = int(shift_right(np.array(value >> 1), 1)), 2**28
    for _ in range(5):
        cube = high(high(x, x), x) << 6
        x = (high(3 << 27, x) - high(half, cube)) << 3
    q = high(x, 1518500250)
    return (q << -right, 0) if right < 0 else (q, -right)
