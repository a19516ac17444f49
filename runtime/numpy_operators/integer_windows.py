"""Integer operators on the windows of images in NumPy: pools, and windows laid out as channels."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vdla.hardware.numerics import scales_from_floats
from vdla.runtime.numpy_operators.function import Array
from vdla.runtime.numpy_operators.requantise import Int8, Int64, Ints, centred, requantise


def windows_of(x: Array, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, padding: int) -> Array:
    """[N, C, windows..., taps...] of x [N, C, ...]."""
    rank = x.ndim - 2
    sides = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    spans = tuple((taps - 1) * gap + 1 for taps, gap in zip(kernel, dilations, strict=True))
    padded = np.pad(x, sides, constant_values=padding)
    every = sliding_window_view(padded, spans, tuple(range(2, 2 + rank)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in (*strides, *dilations)))
    return np.asarray(every[steps])


def max_pool_sums(
    x: Int8,
    *,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    x_zero_point: int,
) -> Int64:
    """The largest element of each window of [N, C, ...]."""
    windows = windows_of(x.astype(np.int64), kernel_shape, strides, pads, dilations, -128)
    largest = windows.max(axis=tuple(range(x.ndim, windows.ndim)))
    return np.asarray(largest - x_zero_point)


def qaverage_pool(
    x: Int8,
    *,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    count_include_pad: int,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """The sum of each window of [N, C, ...], requantised by the multiplier over the count.

    The quotient is that nearest to multiplier / 2**shift / count with 24 significant bits.
    """
    sums = _window_sums(centred(x, x_zero_point), kernel_shape, strides, pads, dilations)
    inside = np.ones((1, 1, *x.shape[2:]), np.int64)
    counts = _window_sums(inside, kernel_shape, strides, pads, dilations)
    if count_include_pad:
        counts = np.full_like(counts, np.prod(kernel_shape))
    quotients = scales_from_floats(np.ldexp(multiplier.astype(np.float64), -shift) / np.maximum(counts, 1))
    return requantise(sums, *quotients, y_zero_point, low, high)


def _window_sums(x: Int64, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints) -> Int64:
    windows = windows_of(x, kernel, strides, pads, dilations, 0)
    return np.asarray(windows.sum(axis=tuple(range(x.ndim, windows.ndim))), np.int64)


def pack_patches(
    x: Int8,
    *,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    padding: int,
    block: int,
    batch: int,
) -> Int8:
    """[N, C, H, W] to [N / batch, KH * KW * C / block, OH, OW, batch, block]: windows as channels.

    C is innermost; zeros fill the last blocks. [N, C, W] is one row.
    """
    image = x.reshape(*x.shape[:2], *(1, *x.shape[2:])[-2:])
    windows = windows_of(image, kernel_shape, strides, pads, dilations, padding)  # [N, C, OH, OW, KH, KW]
    count, _, rows, columns, *_ = windows.shape
    channels = windows.transpose(0, 4, 5, 1, 2, 3).reshape(count, -1, rows, columns)
    whole = np.pad(channels, [(0, -count % batch), (0, -channels.shape[1] % block), (0, 0), (0, 0)])
    blocks = whole.reshape(-1, batch, whole.shape[1] // block, block, rows, columns)
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 5, 1, 3))
