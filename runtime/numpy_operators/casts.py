"""Conversions of element types: Cast, CastLike, BitCast.

Floats convert to 8-bit floats by rounding half to even, and saturate unless the node says
otherwise. Floats truncate to integers; integers wrap; strings are read and written as decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import (
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
