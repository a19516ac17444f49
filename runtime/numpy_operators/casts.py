# SPDX-License-Identifier: Apache-2.0
"""Conversions of element types: casts, quantisation, products of quantised tensors.

Floats convert to 8-bit floats by rounding half to even, and saturate unless the node says
otherwise. Floats truncate to integers; integers wrap; strings are read and written as decimals.

Affine quantisation is q = round(x / scale) + zero_point, saturated; scales are one number, one for
each channel along an axis, or one for each block along it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.convolutions import convolve
from vdla.runtime.numpy_operators.dtypes import (
    SUB_BYTE_LIMITS,
    is_floating,
    is_packed_integer,
    is_short_float,
    is_string,
    numpy_dtype,
    widened,
)
from vdla.runtime.numpy_operators.function import Array, Attributes, Function

_E8M0_BIAS, _E8M0_MOST, _E8M0_NAN = 127, 254, 255
_E8M0 = "float8_e8m0fnu"
_ALWAYS_SATURATED = ("float4_e2m1fn",)


def converted(x: Array, dtype: np.dtype[Any], saturate: bool = True, round_mode: str = "up") -> Array:
    """The array in another element type."""
    if is_string(x):
        return _parsed(x, dtype)
    if dtype.kind == "O":
        return _printed(x)
    if dtype.name == _E8M0:
        return _to_e8m0(np.asarray(widened(x), np.float32), dtype, saturate, round_mode)
    if is_short_float(dtype) and dtype.itemsize == 1:
        return _to_float8(widened(x), dtype, saturate or dtype.name in _ALWAYS_SATURATED)
    wide = widened(x)
    if dtype.kind == "b":
        return np.asarray(wide != 0)
    if is_packed_integer(dtype):
        return (np.trunc(wide).astype(np.int64) if is_floating(wide.dtype) else wide.astype(np.int64)).astype(dtype)
    with np.errstate(all="ignore"):
        return np.asarray(wide.astype(dtype))


def _parsed(x: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers from their decimals; a bool from a number."""
    if dtype.kind == "O":
        return x
    texts = [text.decode() if isinstance(text, bytes) else str(text) for text in x.reshape(-1)]
    exact = dtype.kind in "iu"
    numbers = [int(text) if exact and text.lstrip("+-").isdigit() else float(text) for text in texts]
    flat = np.array(numbers, dtype=np.int64 if exact and all(isinstance(n, int) for n in numbers) else np.float64)
    return converted(flat, dtype).reshape(x.shape)


def _printed(x: Array) -> Array:
    """The shortest decimals that read back as the numbers; 1 and 0 for bools."""
    wide = widened(x)
    result = np.empty(x.shape, object)
    for index, value in np.ndenumerate(wide):
        result[index] = str(int(value)) if wide.dtype.kind == "b" else _text(value)
    return result


def _text(value: Any) -> str:  # noqa: ANN401  a NumPy scalar of any type
    if isinstance(value, np.floating):
        if np.isinf(value):
            return "INF" if value > 0 else "-INF"
        return "NaN" if np.isnan(value) else np.format_float_positional(value, trim="-") if value == 0 else str(value)
    return str(value)


def _to_float8(x: Array, dtype: np.dtype[Any], saturate: bool) -> Array:
    """Floats of eight bits or fewer."""
    largest = _largest(dtype)
    wide = np.asarray(x, np.float32)
    if saturate:
        return np.where(np.isnan(wide), wide, np.clip(wide, -largest, largest)).astype(dtype)
    return wide.astype(dtype)


def _largest(dtype: np.dtype[Any]) -> float:
    """The largest finite value of an 8-bit or shorter float, found among all of its codes."""
    codes = np.arange(256, dtype=np.uint8)
    if dtype.name == "float4_e2m1fn":
        return 6.0
    values = codes.view(dtype).astype(np.float32)
    return float(values[np.isfinite(values)].max())


def _to_e8m0(x: Array, dtype: np.dtype[Any], saturate: bool, round_mode: str) -> Array:
    """Powers of two from 2**-127 to 2**127, as biased exponents."""
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(np.abs(x))  # fraction in [0.5, 1)
    exact = fraction == 0.5
    up = {"up": ~exact, "down": np.zeros_like(exact), "nearest": fraction >= 0.75}[round_mode]
    code = exponent.astype(np.int64) - 1 + up + _E8M0_BIAS
    finite = np.isfinite(x) & (x != 0)
    if saturate:
        code = np.where(finite, np.clip(code, 0, _E8M0_MOST), np.where(x == 0, 0, _E8M0_MOST))
    else:
        code = np.where(finite & (code >= 0) & (code <= _E8M0_MOST), code, _E8M0_NAN)
    return np.where(np.isnan(x), _E8M0_NAN, code).astype(np.uint8).view(dtype)


def _cast(attributes: Attributes, x: Array) -> tuple[Array]:
    saturate, mode = bool(attributes.get("saturate", 1)), attributes.get("round_mode", "up")
    return (converted(x, numpy_dtype(attributes["to"]), saturate, mode),)


def _cast_like(attributes: Attributes, x: Array, like: Array) -> tuple[Array]:
    saturate, mode = bool(attributes.get("saturate", 1)), attributes.get("round_mode", "up")
    return (converted(x, np.dtype(object) if is_string(like) else like.dtype, saturate, mode),)


def _bit_cast(attributes: Attributes, x: Array) -> tuple[Array]:
    return (np.ascontiguousarray(x).view(numpy_dtype(attributes["to"])).reshape(x.shape),)


CASTS: Mapping[str, Function] = {"BitCast": _bit_cast, "Cast": _cast, "CastLike": _cast_like}


# --- affine quantisation --------------------------------------------------------------------------


def limits_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if is_packed_integer(dtype):
        return SUB_BYTE_LIMITS[dtype.name]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _spread(parameter: Array, x: Array, attributes: Attributes) -> Array:
    """A scale or zero point with the shape of `x`, or to broadcast with it."""
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    if parameter.ndim == 0 or parameter.size == 1:
        return parameter.reshape(())
    if block:
        return np.repeat(parameter, block, axis).take(range(x.shape[axis]), axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    return parameter.reshape(shape)


def _quantise(attributes: Attributes, x: Array, scale: Array, zero: Array | None = None) -> tuple[Array]:
    dtype = numpy_dtype(attributes.get("output_dtype") or "uint8") if zero is None else zero.dtype
    precision = attributes.get("precision")
    kind = numpy_dtype(precision) if precision else np.result_type(widened(x), np.float32)
    ratio = np.asarray(widened(x), kind) / np.asarray(_spread(widened(scale), x, attributes), kind)
    if is_floating(dtype):
        return (converted(ratio, dtype, bool(attributes.get("saturate", 1))),)
    offset = 0 if zero is None else _spread(widened(zero), x, attributes).astype(np.int64)
    rounded = _half_away(ratio) if attributes.get("vdla.rounding") == "away" else np.rint(ratio)
    return (_saturated(rounded, offset, dtype),)


def _half_away(values: Array) -> Array:
    """Rounded half away from zero, as TensorFlow Lite quantises."""
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.sign(values), whole)


def _saturated(rounded: Array, offset: Array | int, dtype: np.dtype[Any]) -> Array:
    """Rounded values plus a zero point in an integer type."""
    low, high = limits_of(dtype)
    wide = np.clip(rounded, -(2.0**40), 2.0**40).astype(np.int64) + offset
    kept = np.clip(wide, low, high)
    stored = kept.astype(np.int8 if low < 0 else np.uint8) if is_packed_integer(dtype) else kept
    return np.asarray(stored.astype(dtype))


def _dequantise(attributes: Attributes, x: Array, scale: Array, zero: Array | None = None) -> tuple[Array]:
    wanted = attributes.get("output_dtype")
    dtype = numpy_dtype(wanted) if wanted else scale.dtype
    factor = _spread(widened(scale), x, attributes)
    wide = widened(x)
    if is_floating(x.dtype):
        return ((wide.astype(np.float32) * factor).astype(dtype),)
    offset = 0 if zero is None else _spread(widened(zero), x, attributes).astype(np.int64)
    return (((wide.astype(np.int64) - offset).astype(factor.dtype) * factor).astype(dtype),)


def _dynamic_quantise(attributes: Attributes, x: Array) -> tuple[Array, Array, Array]:
    """uint8 over the range of the data, 0 included."""
    low, high = np.minimum(x.min(initial=0), 0), np.maximum(x.max(initial=0), 0)
    scale = np.float32((high - low) / 255 if x.size else 1)
    zero = np.uint8(0) if scale == 0 else np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    ratio = np.zeros_like(x) if scale == 0 else x / scale
    result = _saturated(np.rint(ratio), int(zero), np.dtype(np.uint8))
    return result, np.asarray(scale, np.float32), np.asarray(zero, np.uint8)


def _qlinear_conv(
    attributes: Attributes,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    weight: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    bias: Array | None = None,
) -> tuple[Array]:
    image = x.astype(np.int32) - x_zero.astype(np.int32)
    kernel = weight.astype(np.int32) - w_zero.astype(np.int32).reshape(-1, *(1,) * (weight.ndim - 1))
    total = convolve(attributes, image, kernel, bias)
    scale = (widened(x_scale) * widened(w_scale) / widened(y_scale)).reshape(-1, *(1,) * (x.ndim - 2))
    return (_requantised(total, scale, y_zero),)


def _qlinear_matmul(
    attributes: Attributes,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
) -> tuple[Array]:
    total = np.matmul(
        a.astype(np.int32) - _of_rows(a_zero.astype(np.int32)), b.astype(np.int32) - b_zero.astype(np.int32)
    )
    scale = _of_rows(widened(a_scale)) * widened(b_scale) / widened(y_scale)
    return (_requantised(total, scale, y_zero),)


def _of_rows(parameter: Array) -> Array:
    """A parameter of the rows of a matrix, to broadcast with it."""
    return parameter[..., None] if parameter.ndim and parameter.size > 1 else parameter.reshape(())


def _requantised(total: Array, scale: Array, zero: Array) -> Array:
    """int32 sums times a scale, rounded half to even, plus the zero point, saturated."""
    return _saturated(np.rint(total * np.asarray(scale, np.float64)), zero.astype(np.int64), zero.dtype)


QUANTISED: Mapping[str, Function] = {
    "DequantizeLinear": _dequantise,
    "DynamicQuantizeLinear": _dynamic_quantise,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantise,
}
