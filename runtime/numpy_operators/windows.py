# SPDX-License-Identifier: Apache-2.0
"""Windows over [N, C, spatial...]: elements under their taps, and integer operators on windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from vdla.hardware.fixed_point import divide_half_away, scale_fixed_point
from vdla.hardware.numerics import scales_from_floats, wrap32
from vdla.runtime.numpy_operators.function import Array
from vdla.runtime.numpy_operators.requantise import (
    NO_FIXED_POINT,
    Int8,
    Int64,
    Ints,
    centred,
    fixed_point_result,
    requantise,
)
from vdla.support.window import Window, window_of


def pad_image(window: Window, x: Array, value: float) -> Array:
    """The image with padding, up to the last element that a window covers."""
    after = map(max, window.after, window.overhang)
    widths = [(0, 0), (0, 0), *zip(window.before, after, strict=True)]
    return np.pad(x, widths, constant_values=np.asarray(value).astype(x.dtype))


def under_tap(window: Window, image: Array, tap: Sequence[int]) -> Array:
    """[N, C, places...]: the elements of the padded image under one tap."""
    axes = zip(tap, window.dilations, window.places, window.strides, strict=True)
    places = [slice(t * gap, t * gap + max((count - 1) * stride + 1, 0), stride) for t, gap, count, stride in axes]
    return image[(slice(None), slice(None), *places)]


def by_tap(window: Window, image: Array) -> Iterator[Array]:
    """The elements of the padded image under one tap after the other."""
    return (under_tap(window, image, tap) for tap in np.ndindex(*window.taps))


# --- integers: pools, and windows laid out as channels --------------------------------------------


def _taps(x: Array, padding: int, attributes: Any) -> Iterator[Array]:  # noqa: ANN401  of nodes
    """[N, C, places...] of x [N, C, ...], one tap after the other."""
    window = window_of(attributes, x.shape[2:], attributes["kernel_shape"])
    return by_tap(window, pad_image(window, x, padding))


def max_pool_sums(x: Int8, *, x_zero_point: int, **window: Ints) -> Int64:
    """The largest element of each window of [N, C, ...]."""
    return np.asarray(reduce(np.maximum, _taps(x.astype(np.int64), -128, window)) - x_zero_point)


def qaverage_pool(
    x: Int8,
    *,
    count_include_pad: int,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
    fixed_point: Int64 = NO_FIXED_POINT,
    half_away: int = 0,
    **window: Ints,
) -> Int8:
    """The sum of each window of [N, C, ...], requantised by the multiplier over the count.

    The quotient is that nearest to multiplier / 2**shift / count with 24 significant bits. Of
    TensorFlow Lite, `fixed_point` has the count in it, and `half_away` divides the elements
    themselves, not less their zero point.
    """
    sums = np.asarray(sum(_taps(centred(x, x_zero_point), 0, window)))
    counts = np.asarray(sum(_taps(np.ones((1, 1, *x.shape[2:]), np.int64), 0, window)))
    if count_include_pad:
        counts = np.full_like(counts, np.prod(window["kernel_shape"]))
    if half_away:
        means = divide_half_away(sums + x_zero_point * counts, np.maximum(counts, 1))
        return fixed_point_result(means, 0, low, high)
    if fixed_point.size:
        return fixed_point_result(scale_fixed_point(wrap32(sums), *fixed_point), y_zero_point, low, high)
    quotients = scales_from_floats(np.ldexp(multiplier.astype(np.float64), -shift) / np.maximum(counts, 1))
    return requantise(sums, *quotients, y_zero_point, low, high)


def pack_patches(x: Int8, *, padding: int, block: int, batch: int, **window: Ints) -> Int8:
    """[N, C, H, W] to [N / batch, KH * KW * C / block, OH, OW, batch, block]: windows as channels.

    C is innermost; zeros fill the last blocks. [N, C, W] is one row.
    """
    image = x.reshape(*x.shape[:2], *(1, *x.shape[2:])[-2:])
    channels = np.concatenate(list(_taps(image, padding, window)), axis=1)
    count, _, rows, columns = channels.shape
    whole = np.pad(channels, [(0, -count % batch), (0, -channels.shape[1] % block), (0, 0), (0, 0)])
    blocks = whole.reshape(-1, batch, whole.shape[1] // block, block, rows, columns)
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 5, 1, 3))
