# SPDX-License-Identifier: Apache-2.0
"""Requantisation in NumPy: the one definition of how integer sums become int8.

A sum is int32 and wraps. A requantisation is `clip(round(sum * multiplier / 2**shift) + zero_point,
low, high)`, half to even; multipliers and shifts have one entry, or one a channel. An operator of
the attribute `fixed_point` rescales as TensorFlow Lite's reference kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.fixed_point import scale_fixed_point
from vdla.hardware.numerics import round_half_even, wrap32
from vdla.runtime.numpy_operators.function import Array

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]
Ints = Sequence[int]
NO_FIXED_POINT: Int64 = np.zeros((3, 0), np.int64)


def requantise(sums: Int64, multiplier: Array, shift: Array, y_zero_point: int, low: int, high: int) -> Int8:
    """Sums as int8; multipliers and shifts broadcast to the sums."""
    products = wrap32(sums).astype(np.int64) * multiplier
    return np.asarray(np.clip(round_half_even(products, shift) + y_zero_point, low, high), np.int8)


def requantised(sums_of: Callable[..., Int64], *, by_channel: bool = False) -> Callable[..., Int8]:
    """An operator from its sums; scales are `by_channel` of dimension 1, else of the last one."""

    def operator(*inputs: Array, multiplier: Array, shift: Array, **attributes: Any) -> Int8:  # noqa: ANN401  of nodes
        bounds = {name: attributes.pop(name) for name in ("y_zero_point", "low", "high")}
        fixed = attributes.pop("fixed_point", NO_FIXED_POINT)
        sums = sums_of(*inputs, **attributes)
        if fixed.size:
            factors = [along_channels(row, sums.ndim) if by_channel else row for row in fixed]
            return fixed_point_result(scale_fixed_point(wrap32(sums), *factors), **bounds).reshape(sums.shape)
        if by_channel:
            multiplier, shift = along_channels(multiplier, sums.ndim), along_channels(shift, sums.ndim)
        return requantise(sums, multiplier, shift, **bounds).reshape(sums.shape)

    return operator


def fixed_point_result(rescaled: Int64, y_zero_point: int, low: int, high: int) -> Int8:
    """Rescaled sums as int8."""
    return np.asarray(np.clip(rescaled + y_zero_point, low, high), np.int8)


def centred(x: Int8, zero_point: int) -> Int64:
    """The numbers that elements stand for, without their scale."""
    return np.asarray(x.astype(np.int64) - zero_point)


def along_channels(values: Array, rank: int) -> Int64:
    """A vector along dimension 1 of a tensor."""
    return np.asarray(values.astype(np.int64).reshape(-1, *(1,) * (rank - 2)))
