# SPDX-License-Identifier: Apache-2.0
"""Naive quantised operators in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def rescaled(total: Array, scale: Array, zero_point: int, dtype: str) -> Array:
    """Sums times a float32, rounded half to even, plus the zero point, saturated to `dtype`.

    Exact for sums below 2**29.
    """
    limits = np.iinfo(dtype)
    rounded = np.rint(total.astype(np.int32).astype(np.float64) * scale.astype(np.float32))
    return np.clip(rounded + zero_point, limits.min, limits.max).astype(dtype)


def convolved(
    x: Array,
    weight: Array,
    zero_point: int,
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilations: tuple[int, int],
    depthwise: bool,
) -> Array:
    """Int64 sums of [N, C, H, W] and [CO, C, KH, KW] ([C, 1, KH, KW] if depthwise)."""
    centred = x.astype(np.int64) - zero_point
    padded = np.pad(centred, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    rows, columns = ((n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, strides, strict=True))
    total = np.zeros((len(x), len(weight), rows, columns), np.int64)
    for r in range(weight.shape[2]):
        for q in range(weight.shape[3]):
            top, left = r * dilations[0], q * dilations[1]
            part = padded[
                :, :, top : top + rows * strides[0] : strides[0], left : left + columns * strides[1] : strides[1]
            ]
            part = part[:, :, :rows, :columns]
            taps = weight[:, :, r, q].astype(np.int64)
            total += part * taps[:, 0, None, None] if depthwise else np.einsum("ncyx,oc->noyx", part, taps)
    return total
