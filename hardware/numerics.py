# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the machine in NumPy: requantisation, vector operations, sub-byte elements.

The one definition for the simulator, the compiler's reference and the RTL's tests. Arithmetic is
two's complement and wraps in 32 bits. Requantisation rounds half to even, SHR half up, towards plus
infinity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vdla.support.arrays import Array, Bytes, Ints
from vdla.support.errors import Error

MULT_BITS = 24
SHIFT_MAX = 63

Int32 = NDArray[np.int32]
Int64 = Ints


class NumericsError(Error, ValueError):
    """A number outside the machine's range."""


def _wide(values: ArrayLike) -> Int64:
    return np.asarray(values).astype(np.int64)


def wrap32(values: ArrayLike) -> Int32:
    """The low 32 bits of int64 values, as int32."""
    return _wide(values).astype(np.int32)


def _require_within(what: str, values: Array, low: int, high: int) -> None:
    outside = (values < low) | (values > high)
    if outside.any():
        raise NumericsError(f"{what} must be an integer from {low} to {high}, got {values[outside].flat[0]}")


# --- requantisation ------------------------------------------------------------------------------


def pack_scale(bias: ArrayLike, mult: ArrayLike, shift: ArrayLike) -> NDArray[np.uint64]:
    """Requantisation parameters as 64-bit lanes of the scale buffer; shapes broadcast.

    A lane is bias int32 (31:0), mult uint24 (55:32), shift (61:56).
    """
    wide_bias, wide_mult, wide_shift = _wide(bias), _wide(mult), _wide(shift)
    _require_within("scale: bias", wide_bias, -(1 << 31), (1 << 31) - 1)
    _require_within("scale: mult", wide_mult, 0, (1 << MULT_BITS) - 1)
    _require_within("scale: shift", wide_shift, 0, SHIFT_MAX)
    lanes = (wide_bias & 0xFFFF_FFFF) | wide_mult << np.int64(32) | wide_shift << np.int64(56)
    return np.asarray(lanes, np.int64).view(np.uint64)


def unpack_scale(lanes: ArrayLike) -> tuple[Int32, Int64, Int64]:
    """Bias, multiplier and shift of 64-bit lanes, the inverse of `pack_scale`."""
    bits = np.asarray(lanes).astype(np.uint64)
    bias = (bits & np.uint64(0xFFFF_FFFF)).astype(np.uint32).view(np.int32)
    mult = (bits >> np.uint64(32) & np.uint64(0xFF_FFFF)).astype(np.int64)
    shift = (bits >> np.uint64(56) & np.uint64(SHIFT_MAX)).astype(np.int64)
    return bias, mult, shift


def scales_from_floats(real: ArrayLike) -> tuple[Int64, Int64]:
    """Multipliers and shifts with `mult * 2**-shift` equal to the factors as float32.

    The multiplier is the float32's significand of 24 bits. Of factors below 2**-40 it has fewer,
    as the shift is at its maximum; every int32 times one of these is rounded to 0.
    """
    values = np.asarray(real, np.float64)
    good = np.isfinite(values) & (values >= 0) & (values <= (1 << MULT_BITS) - 1)
    if not good.all():
        raise NumericsError(f"scale: factor must be from 0 to {(1 << MULT_BITS) - 1}, got {values[~good].flat[0]}")
    rounded = values.astype(np.float32).astype(np.float64)
    shift = np.clip(MULT_BITS - np.frexp(rounded)[1], 0, SHIFT_MAX)
    mult = np.rint(np.ldexp(rounded, shift))
    return mult.astype(np.int64), np.where(mult == 0, 0, shift).astype(np.int64)


def scale_from_float(real: float) -> tuple[int, int]:
    """The multiplier and shift nearest to a real factor."""
    mult, shift = scales_from_floats(real)
    return int(mult), int(shift)


def round_half_even(values: ArrayLike, shift: ArrayLike) -> Int64:
    """`values / 2**shift`, rounded half to even; |values| < 2**62, shift from 0 to 63."""
    wide, amount = _wide(values), _wide(shift)
    below_half = np.int64((1 << 62) - 1) >> (63 - amount)  # 2**(shift - 1) - 1, and 0 for a shift of 0
    odd = (wide >> amount) & np.minimum(amount, 1)
    return np.asarray((wide + below_half + odd) >> amount, np.int64)


def requantise(
    values: ArrayLike, lanes: ArrayLike, zero_point: int, clip_lo: int, clip_hi: int, out_bits: int = 8
) -> NDArray[np.int8]:
    """Requantised sums: `clip(round(wrap32(v + bias) * mult / 2**shift) + zero_point)`, rounding
    half to even.

    `lanes` are packed scales, broadcast along the last axis; the result has elements of `out_bits`
    in int8.
    """
    half = 1 << (out_bits - 1)
    for name, value in (("zero_point", zero_point), ("clip_lo", clip_lo), ("clip_hi", clip_hi)):
        _require_within(f"requantise: {name}", np.asarray(value), -half, half - 1)
    bias, mult, shift = unpack_scale(lanes)
    product = wrap32(_wide(values) + bias).astype(np.int64) * mult
    result = round_half_even(product, shift) + zero_point
    return np.asarray(np.minimum(np.maximum(result, clip_lo), clip_hi), np.int8)


# --- elements ------------------------------------------------------------------------------------


def pack_elements(values: ArrayLike, bits: int) -> Bytes:
    """Signed elements packed into bytes along the last axis, the first in the low bits."""
    array = np.asarray(values)
    per_byte = 8 // bits
    half = 1 << (bits - 1)
    if array.size:
        _require_within(f"elements: int{bits} value", np.array([array.min(), array.max()]), -half, half - 1)
    if array.ndim == 0 or array.shape[-1] % per_byte:
        raise NumericsError(
            f"elements: the last axis must be a multiple of {per_byte} for int{bits}, got {array.shape}"
        )
    raw = (array.astype(np.int8).view(np.uint8) & np.uint8((1 << bits) - 1)).reshape(*array.shape[:-1], -1, per_byte)
    packed = np.zeros(raw.shape[:-1], np.uint8)
    for position in range(per_byte):
        packed |= raw[..., position] << np.uint8(position * bits)
    return packed


def unpack_elements(packed: ArrayLike, bits: int) -> NDArray[np.int8]:
    """Signed elements of bytes along the last axis, the inverse of `pack_elements`."""
    data = np.asarray(packed)
    per_byte = 8 // bits
    result = np.empty((*data.shape, per_byte), np.int8)
    for position in range(per_byte):
        top = data.astype(np.uint8) << np.uint8(8 - bits * (position + 1))
        result[..., position] = top.view(np.int8) >> np.int8(8 - bits)
    return result.reshape(*data.shape[:-1], -1)
