# SPDX-License-Identifier: Apache-2.0
"""Naive models of the operators in NumPy, which share no code with the compiler.

Sums are exact in int64 and wrap to 32 bits where the accumulator does. Results are rounded half to
even.
"""

from __future__ import annotations

from math import floor, frexp
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]
Pads = tuple[int, ...]  # two: of both directions; four: top, left, bottom, right

MULT_BITS, SHIFT_MAX = 24, 63


def limits(bits: int) -> Pair:
    """The smallest and the largest signed integer of `bits` bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def wrap32(values: Array) -> Array:
    """Int64 values wrapped to 32 bits."""
    return (values + (1 << 31)) % (1 << 32) - (1 << 31)


def scale_of(real: float) -> Pair:
    """The 24-bit multiplier and the shift nearest to a real factor."""
    shift = min(max(MULT_BITS - frexp(real)[1], 0), SHIFT_MAX)
    mult = floor(real * 2.0**shift + 0.5)
    if mult == 1 << MULT_BITS:
        mult, shift = mult // 2, shift - 1
    return (mult, shift) if mult else (0, 0)


def requantise(sums: Array, bias: Array, factor: Array, zero_point: int, low: int, high: int) -> Array:
    """Sums [N, C, ...] to results; `bias` and `factor` have a value for each channel, or broadcast
    to the sums.
    """
    shape = (-1,) + (1,) * (sums.ndim - 2)
    bias, factor = (np.reshape(v, shape) if np.ndim(v) == 1 else v for v in (bias, factor))
    scales = np.vectorize(scale_of, otypes=[np.int64, np.int64])
    mult, shift = scales(np.asarray(factor, np.float64))
    product = wrap32(sums + bias) * mult
    return np.clip(round_half_even(product, shift) + zero_point, low, high)


def round_half_even(values: Array, shift: Array) -> Array:
    """Quotients of 56 bits by 2**shift: the floor, plus 1 above a half, or at a half if that is
    even.
    """
    unit = np.int64(1) << np.minimum(shift, 60)  # beyond 57, every quotient rounds to 0
    floor, rest = np.divmod(values, unit)
    return floor + (2 * rest > unit) + ((2 * rest == unit) & (floor % 2 == 1))


def windows(data: Array, kernel: Pair, strides: Pair, pads: Pads, dilations: Pair, fill: int) -> Array:
    """[KH, KW, N, C, OH, OW]: the input element under each kernel position."""
    (kh, kw), (sh, sw), (dh, dw) = kernel, strides, dilations
    top, left, bottom, right = (*pads, *pads)[:4]
    full = np.pad(data.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    rows = (full.shape[2] - (kh - 1) * dh - 1) // sh + 1
    cols = (full.shape[3] - (kw - 1) * dw - 1) // sw + 1
    found = np.empty((kh, kw, *full.shape[:2], rows, cols), np.int64)
    for y in range(kh):
        for x in range(kw):
            found[y, x] = full[:, :, y * dh :, x * dw :][:, :, : (rows - 1) * sh + 1 : sh, : (cols - 1) * sw + 1 : sw]
    return found


def conv2d(data: Array, weight: Array, strides: Pair, pads: Pads, dilations: Pair = (1, 1), zero: int = 0) -> Array:
    """The sums of (x - zero) * w; padding is zero."""
    seen = windows(data, weight.shape[2:], strides, pads, dilations, zero) - zero
    return wrap32(np.einsum("klncyx,ockl->noyx", seen, weight.astype(np.int64), optimize=True))


def depthwise_conv2d(
    data: Array, weight: Array, strides: Pair, pads: Pads, dilations: Pair = (1, 1), zero: int = 0
) -> Array:
    """The sums of (x - zero) * w, each channel with its own kernel [C, 1, KH, KW]."""
    seen = windows(data, weight.shape[2:], strides, pads, dilations, zero) - zero
    return wrap32(np.einsum("klncyx,ckl->ncyx", seen, weight[:, 0].astype(np.int64)))


def conv2d_transpose(
    data: Array, weight: Array, strides: Pair, pads: Pads, output_padding: Pair, zero: int = 0
) -> Array:
    """The sums of a transposed convolution with kernels [I, O, KH, KW]."""
    (n, _, height, width), (_, out, kh, kw) = data.shape, weight.shape
    (sh, sw), (eh, ew) = strides, output_padding
    top, left, bottom, right = (*pads, *pads)[:4]
    full = np.zeros((n, out, (height - 1) * sh + kh + eh, (width - 1) * sw + kw + ew), np.int64)
    values = data.astype(np.int64) - zero
    for y in range(height):
        for x in range(width):
            part = np.einsum("nc,cokl->nokl", values[:, :, y, x], weight.astype(np.int64))
            full[:, :, y * sh : y * sh + kh, x * sw : x * sw + kw] += part
    return wrap32(full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right])


def max_pool2d(data: Array, kernel: Pair, strides: Pair, pads: Pads, dilations: Pair = (1, 1)) -> Array:
    """The maximum of each window, without padding."""
    return windows(data, kernel, strides, pads, dilations, -(1 << 31)).max(axis=(0, 1))


def sum_pool2d(data: Array, kernel: Pair, strides: Pair, pads: Pads, dilations: Pair = (1, 1), zero: int = 0) -> Array:
    """The sum of (x - zero) over each window."""
    return (windows(data, kernel, strides, pads, dilations, zero) - zero).sum(axis=(0, 1))


def counts(shape: Pair, kernel: Pair, strides: Pair, pads: Pads, dilations: Pair = (1, 1)) -> Array:
    """[1, 1, OH, OW]: the elements of each window that are not padding."""
    return windows(np.ones((1, 1, *shape), np.int64), kernel, strides, pads, dilations, 0).sum(axis=(0, 1))


def residual_add(data: Array, other: Array, integers: Pair) -> Array:
    """The sum of integer multiples."""
    return wrap32(data.astype(np.int64) * integers[0] + other.astype(np.int64) * integers[1])
