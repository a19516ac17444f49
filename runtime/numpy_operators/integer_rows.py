# SPDX-License-Identifier: Apache-2.0
"""Softmax, norms and rotation of int8 rows in NumPy: the definitions of vdla.QRowSoftmax,
vdla.QRowNorm, vdla.QRotary, and of vdla.QFactor.

All numbers are integers; `definitions.row_softmax`, `row_norm` and `rotary` say how near they are
to floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.requantise import Int8, Int64, requantise

_PART = 1023


def row_softmax(x: Int8, *, factor: int, multiplier: Int64, shift: Int64, **results: Any) -> Int8:  # noqa: ANN401
    """The shares of the elements of each row of the last dimension, requantised."""
    wide = x.astype(np.int64)
    exponents = (wide.max(axis=-1, keepdims=True) - wide) * factor
    total = (_power(exponents) >> _whole(exponents)).sum(axis=-1, keepdims=True)
    exponents += _logarithm(total)
    return requantise((_power(exponents) << 9) >> _whole(exponents), multiplier, shift, **results)


def _power(exponents: Int64) -> Int64:
    """2**-part of fractional parts, 32,768 for 1."""
    part = (exponents >> 6) & _PART
    return np.asarray(32768 - (part * (1374 - (part * 11 >> 5)) >> 6))


def _whole(exponents: Int64) -> Int64:
    return np.asarray(np.minimum(exponents >> 16, 31))


def _logarithm(total: Int64) -> Int64:
    """log2 of sums, 0 for 32,768."""
    bits = np.frexp(total)[1] - 16
    part = (total >> (bits + 5)) & _PART
    bend = (part * (1024 - part) >> 8) * (432 - (part * 162 >> 10)) >> 6
    return np.asarray((bits.astype(np.int64) << 16) + (part << 6) + bend)


def row_norm(
    x: Int8,
    sign: Int8,
    bias: Int64,
    *,
    centred: int,
    least: int,
    multiplier: Int64,
    shift: Int64,
    **results: Any,  # noqa: ANN401  the zero point and the bounds of results
) -> Int8:
    """The elements of each row over their deviation, times a factor and plus a bias by feature."""
    wide, features = x.astype(np.int64), x.shape[-1]
    places = features.bit_length() - 1 + 20
    over = round((1 << places) / features)
    mean = (wide.sum(axis=-1, keepdims=True) * over >> (places - 6)) * centred
    squares = (wide * wide).sum(axis=-1, keepdims=True) * over >> (places - 12)
    spread = np.maximum(squares - mean * mean + least, 1)
    bits = (np.frexp(spread)[1] - 1) // 2
    mantissa = (spread << np.maximum(14 - 2 * bits, 0)) >> np.maximum(2 * bits - 14, 0)
    root = np.where(mantissa < 32768, 20600 - (mantissa * 18 >> 6), 14320 - (mantissa * 6 >> 6))
    for _ in range(2):
        root = root * (49152 - (mantissa * (root * root >> 14) >> 14)) >> 15
    normal = ((wide << 6) - mean) * (root >> 2) >> bits
    return requantise(np.where(sign < 0, -normal, normal) + bias, multiplier, shift, **results)


def factor(x: Int8, *, transposed: int) -> Int8:
    """The second factor of products, of matrices or of their transposes."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)) if transposed else x


def rotary(
    x: Int8,
    turns: Int8,
    *,
    heads: int,
    turned: int,
    interleaved: int,
    multiplier: Int64,
    shift: Int64,
    **results: Any,  # noqa: ANN401  the zero point and the bounds of results
) -> Int8:
    """The pairs of each head, times cosines and sines of 8 bits, requantised."""
    parts = x.astype(np.int64).reshape(*x.shape[:-1], heads, -1)
    cosines, sines = np.split(turns.astype(np.int64)[..., None, :], 2, -1)
    places = np.arange(turned)
    others = places ^ 1 if interleaved else np.roll(places, turned // 2)
    sums = parts * cosines
    sums[..., :turned] += parts[..., others] * sines[..., :turned]
    return requantise(sums.reshape(x.shape), multiplier, shift, **results)
