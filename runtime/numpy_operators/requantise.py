# SPDX-License-Identifier: Apache-2.0
"""Requantisation in NumPy: the one definition of how integer sums become int8.

A sum is int32 and wraps. A requantisation is `clip(round(sum * multiplier / 2**shift) + zero_point,
low, high)`, half to even; multipliers and shifts have one entry, or one a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.numerics import round_half_even, wrap32
from vdla.runtime.numpy_operators.function import Array

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]
Ints = Sequence[int]


def requantise(sums: Int64, multiplier: Array, shift: Array, y_zero_point: int, low: int, high: int) -> Int8:
    """Sums as int8; multipliers and shifts broadcast to the sums."""
    products = wrap32(sums).astype(np.int64) * multiplier
    return np.asarray(np.clip(round_half_even(products, shift) + y_zero_point, low, high), np.int8)


def requantised(sums_of: Callable[..., Int64], *, by_channel: bool = False) -> Callable[..., Int8]:
    """An operator from its sums; scales are `by_channel` of dimension 1, else of the last one."""

    def operator(*inputs: Array, multiplier: Array, shift: Array, **attributes: Any) -> Int8:  # noqa: ANN401  of nodes
        bounds = {name: attributes.pop(name) for name in ("y_zero_point", "low", "high")}
        sums = sums_of(*inputs, **attributes)
        if by_channel:
            multiplier, shift = along_channels(multiplier, sums.ndim), along_channels(shift, sums.ndim)
        return requantise(sums, multiplier, shift, **bounds)

    return operator


def centred(x: Int8, zero_point: int) -> Int64:
    """The numbers that elements stand for, without their scale."""
    return np.asarray(x.astype(np.int64) - zero_point)


def along_channels(values: Array, rank: int) -> Int64:
    """A vector along dimension 1 of a tensor."""
    return np.asarray(values.astype(np.int64).reshape(-1, *(1,) * (rank - 2)))
