"""Affine quantisation, q = round(x / scale) + zero_point, saturated; products of quantised tensors.

Scales are one number, one for each channel along an axis, or one for each block along it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.casts import converted
from vdla.runtime.numpy_operators.convolutions import convolve
from vdla.runtime.numpy_operators.dtypes import (
    SUB_BYTE_LIMITS,
    is_floating,
    is_packed_integer,
    numpy_dtype,
    widened,
)
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


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
    return (_saturated(np.rint(ratio), offset, dtype),)


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
