"""Element types by name: width, kind, range, storage in numpy.

Sub-byte integers live one to an `int8` in numpy arrays, always in their own range: every operation ends in `wrap`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

INTEGER_BITS = {"int2": 2, "int4": 4, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8}
FLOATS = ("float32", "float64")
DTYPES = (*INTEGER_BITS, *FLOATS, "bool")

Array = npt.NDArray[Any]


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is a signed or unsigned integer (bool is not)."""
    return dtype in INTEGER_BITS


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype in FLOATS


def limits(dtype: str) -> tuple[int | float, int | float]:
    """The smallest and the largest value of a number type."""
    if is_float(dtype):
        return -float("inf"), float("inf")
    if dtype == "uint8":
        return 0, 255
    half = 1 << (INTEGER_BITS[dtype] - 1)
    return -half, half - 1


def storage(dtype: str) -> np.dtype[Any]:
    """The numpy dtype that holds elements of `dtype`."""
    return np.dtype("int8" if dtype in ("int2", "int4") else dtype)


def wrap(values: Array, dtype: str) -> Array:
    """`values` converted to `dtype`: integers modulo their range, floats to integers towards zero."""
    if dtype == "bool" or is_float(dtype):
        return values.astype(storage(dtype))
    if values.dtype.kind == "f":
        values = values.astype(np.int64)
    stored = values.astype(storage(dtype), copy=False)
    if INTEGER_BITS[dtype] >= 8:
        return stored
    spare = 8 - INTEGER_BITS[dtype]
    return (stored << spare) >> spare
