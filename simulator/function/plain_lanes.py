# SPDX-License-Identifier: Apache-2.0
"""What `lanes` is in compiled code, in NumPy: sixteen int32 lanes, whose sums and products wrap.

Indices are in elements of their array and are not checked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.numerics import requantise
from vdla.support.arrays import Array, Bytes, Ints

LANES = 16
Lanes = NDArray[np.int32]


def load16(array: Lanes, index: int) -> Lanes:
    """The sixteen elements of an int32 array from an index on."""
    return array[index : index + LANES].copy()


def widen16(array: NDArray[np.int8], index: int) -> Lanes:
    """The sixteen elements of an int8 array from an index on."""
    return array[index : index + LANES].astype(np.int32)


def splat16(value: int) -> Lanes:
    """The low 32 bits of an integer in all lanes."""
    return np.full(LANES, value, np.int64).astype(np.int32)


def store16(array: Lanes, index: int, lanes: Lanes) -> None:
    """Write the lanes to an int32 array from an index on."""
    array[index : index + LANES] = lanes


def add16(a: Lanes, b: Lanes) -> Lanes:
    """Sums."""
    return a + b


def sub16(a: Lanes, b: Lanes) -> Lanes:
    """Differences."""
    return a - b


def mul16(a: Lanes, b: Lanes) -> Lanes:
    """Products."""
    return a * b


def min16(a: Lanes, b: Lanes) -> Lanes:
    """Minima."""
    return np.minimum(a, b)


def max16(a: Lanes, b: Lanes) -> Lanes:
    """Maxima."""
    return np.maximum(a, b)


def shift_left16(a: Lanes, b: Lanes) -> Lanes:
    """`a` times two to the power of the low five bits of `b`."""
    shifted: Lanes = np.left_shift(a, b & 31)
    return shifted


def shift_right16(a: Lanes, b: Lanes) -> Lanes:
    """`a >> b`, rounded half up."""
    wide, shift = a.astype(np.int64), (b & 31).astype(np.int64)
    return ((wide + ((np.int64(1) << shift) >> 1)) >> shift).astype(np.int32)


def requantise16(sums: Lanes, scales: Ints, index: int, zero: int, low: int, high: int, out: Bytes, place: int) -> None:
    """Write the sums, requantised with sixteen packed scales from an index on, as bytes."""
    entry = requantise(sums, scales[index : index + LANES], zero, low, high)
    out[place : place + LANES] = entry.view(np.uint8)


def multiply(inputs: Array, weights: Array, sums: Lanes) -> None:
    """sums[batch * block_out] += inputs[batch, block_in] . weights[block_out, block_in]^T"""
    sums += (inputs.astype(np.int32) @ weights.astype(np.int32).T).reshape(-1)
