# SPDX-License-Identifier: Apache-2.0
"""Element types by name: width, kind, range, NumPy storage, conversion.

In NumPy arrays a sub-byte integer occupies one `int8`, always within its own range: every operation
ends in `wrap`. float16 and bfloat16 are storage types: arithmetic on them is float32, rounded by
`wrap`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

INTEGER_BITS = {
    "int2": 2, "int4": 4, "int8": 8, "int16": 16, "int32": 32, "int64": 64,
    "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
}  # fmt: skip
SMALL_FLOATS = ("float16", "bfloat16")
FLOATS = (*SMALL_FLOATS, "float32", "float64")
DTYPES = (*INTEGER_BITS, *FLOATS, "bool")

Array = npt.NDArray[Any]

_STORAGE: dict[str, np.dtype[Any]] = {
    dtype: np.dtype({"int2": "int8", "int4": "int8"}.get(dtype, dtype)) for dtype in DTYPES if dtype != "bfloat16"
}


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is a signed or unsigned integer (bool is not)."""
    return dtype in INTEGER_BITS


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype in FLOATS


def limits(dtype: str) -> tuple[int | float, int | float]:
    """The smallest and the largest value of a numeric type."""
    if is_float(dtype):
        return -float("inf"), float("inf")
    if dtype.startswith("u"):
        return 0, (1 << INTEGER_BITS[dtype]) - 1
    half = 1 << (INTEGER_BITS[dtype] - 1)
    return -half, half - 1


def storage_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype that stores elements of `dtype`; that of bfloat16 is from ml_dtypes."""
    if dtype == "bfloat16":
        import ml_dtypes

        stored: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return stored
    return _STORAGE[dtype]


def widen(values: Array, dtype: str) -> Array:
    """`values` of type `dtype` in the type that arithmetic on them uses; exact."""
    return values.astype(np.float32) if dtype in SMALL_FLOATS else values


def wrap(values: Array, dtype: str) -> Array:
    """`values`, of any type but float16 and bfloat16, converted to `dtype`.

    Integers wrap modulo their range. Floats convert to integers towards zero, saturating, NaN to 0,
    and to bool as `!= 0`. float16 and bfloat16 are rounded from float32, ties to even.
    """
    if dtype in SMALL_FLOATS:
        return values.astype(np.float32, copy=False).astype(storage_dtype(dtype))
    if dtype == "bool" or is_float(dtype):
        return values.astype(_STORAGE[dtype])
    if values.dtype.kind == "f":
        return _saturate(values, dtype)
    stored = values.astype(_STORAGE[dtype], copy=False)
    if INTEGER_BITS[dtype] >= 8:
        return stored
    spare = 8 - INTEGER_BITS[dtype]
    return (stored << spare) >> spare


def _saturate(values: Array, dtype: str) -> Array:
    """Floats converted to integers: towards zero, saturating, NaN to 0."""
    low, high = limits(dtype)
    above = float(high + 1)  # a power of two, hence exact; the largest integer may not be
    inside = np.where((values > low) & (values < above), values, 0).astype(_STORAGE[dtype])
    number = _STORAGE[dtype].type
    return np.asarray(np.where(values <= low, number(low), np.where(values >= above, number(high), inside)))
