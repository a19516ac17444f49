# SPDX-License-Identifier: Apache-2.0
"""Pooling over any number of spatial dimensions, a tap at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import in_float32, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.windows import by_tap, pad_image, under_tap
from vdla.support.window import window_of


def _max_pool(attributes: Attributes, x: Array) -> tuple[Array, Array]:
    """The largest elements, and their positions in `x`; of equal ones the first."""
    wide = widened(x)
    windows = window_of(attributes, x.shape[2:], attributes["kernel_shape"])
    low = -np.inf if wide.dtype.kind == "f" else np.iinfo(wide.dtype).min
    padded = pad_image(windows, wide, low)
    positions = pad_image(windows, _positions(x.shape, attributes.get("storage_order", 0)), -1)
    best = np.full((*x.shape[:2], *windows.places), low, wide.dtype)
    place = np.full(best.shape, -1, np.int64)
    for tap in np.ndindex(*windows.taps):
        element, where = under_tap(windows, padded, tap), under_tap(windows, positions, tap)
        better = (where >= 0) & ((element > best) | (place < 0) | (np.isnan(element) & ~np.isnan(best)))
        best, place = np.where(better, element, best), np.where(better, where, place)
    return best.astype(x.dtype), place


def _positions(shape: tuple[int, ...], column_major: int) -> Array:
    """The position of each element, the last spatial dimension the fastest, or the first."""
    places = np.arange(np.prod(shape), dtype=np.int64)
    if not column_major:
        return places.reshape(shape)
    backwards = places.reshape(*shape[:2], *shape[:1:-1])
    return backwards.transpose(0, 1, *range(len(shape) - 1, 1, -1))


def _average_pool(attributes: Attributes, x: Array) -> Array:
    """Padding counts if the node says so; positions that `ceil_mode` adds never do."""
    windows = window_of(attributes, x.shape[2:], attributes["kernel_shape"])
    widths = zip(windows.before, windows.after, strict=True)
    inside = np.pad(np.ones((1, 1, *x.shape[2:])), [(0, 0), (0, 0), *widths],
                    constant_values=attributes.get("count_include_pad", 0))  # fmt: skip
    reach = pad_image(windows, x, 0)
    beyond = [(0, wide - have) for wide, have in zip(reach.shape[2:], inside.shape[2:], strict=True)]
    inside = np.pad(inside, [(0, 0), (0, 0), *beyond])
    total = sum(by_tap(windows, reach))
    return np.asarray(total / sum(by_tap(windows, inside)))


def _lp_pool(attributes: Attributes, x: Array) -> Array:
    order = attributes.get("p", 2)
    windows = window_of(attributes, x.shape[2:], attributes["kernel_shape"])
    padded = pad_image(windows, np.abs(x) ** order, 0)
    return np.asarray(sum(by_tap(windows, padded)) ** (1 / order))


def _spatial(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _global_lp_pool(attributes: Attributes, x: Array) -> Array:
    order = attributes.get("p", 2)
    return np.asarray((np.abs(x) ** order).sum(_spatial(x), keepdims=True) ** (1 / order))


def _max_unpool(attributes: Attributes, x: Array, indices: Array, shape: Array | None = None) -> tuple[Array]:
    """The elements at their positions in the unpooled tensor, zeros in between."""
    rank = x.ndim - 2
    kernel, strides = attributes["kernel_shape"], attributes.get("strides", (1,) * rank)
    pads = attributes.get("pads", (0,) * (2 * rank))
    inferred = [(x.shape[2 + d] - 1) * strides[d] - pads[d] - pads[rank + d] + kernel[d] for d in range(rank)]
    small = np.zeros((*x.shape[:2], *inferred), x.dtype)
    small.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    if shape is None:
        return (small,)
    result = np.zeros(tuple(map(int, shape)), x.dtype)
    result[tuple(slice(extent) for extent in small.shape)] = small
    return (result,)


POOLS: Mapping[str, Function] = {
    "AveragePool": in_float32(_average_pool),
    "GlobalAveragePool": in_float32(lambda attributes, x: x.mean(_spatial(x), keepdims=True)),
    "GlobalLpPool": in_float32(_global_lp_pool),
    "GlobalMaxPool": in_float32(lambda attributes, x: x.max(_spatial(x), keepdims=True)),
    "LpPool": in_float32(_lp_pool),
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
