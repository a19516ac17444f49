# SPDX-License-Identifier: Apache-2.0
"""Element types by their names in graphs, and float32 in place of the short ones.

Types that NumPy lacks come from the package ml_dtypes, which is loaded when one is first named.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function, Value

INTEGER_KINDS = "iu"
_EXTENSION = "V"  # the kind of most types of ml_dtypes
_PACKED_INTEGERS = ("int2", "int4", "uint2", "uint4")
SUB_BYTE_LIMITS = {"int2": (-2, 1), "int4": (-8, 7), "uint2": (0, 3), "uint4": (0, 15)}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type; strings are objects."""
    if name == "str":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        result: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
        return result


def is_string(array: Array) -> bool:
    """Whether the elements are strings."""
    return array.dtype.kind in "OUST"


def is_short_float(dtype: np.dtype[Any]) -> bool:
    """Whether a float type has fewer bits than float32."""
    return dtype.name == "float16" or dtype.name.startswith(("bfloat16", "float8_", "float6_", "float4_"))


def is_packed_integer(dtype: np.dtype[Any]) -> bool:
    """Whether an integer type has fewer bits than a byte."""
    return dtype.name in _PACKED_INTEGERS


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a float."""
    return dtype.kind == "f" or is_short_float(dtype)


def widened(array: Array) -> Array:
    """Short floats as float32, integers of less than a byte as int8; other arrays as they are."""
    if is_short_float(array.dtype):
        return array.astype(np.float32)
    return array.astype(np.int8) if is_packed_integer(array.dtype) else array


def widened_all(*arrays: Array | None) -> list[Array | None]:
    """All arrays `widened`, absent ones too."""
    return [None if array is None else widened(array) for array in arrays]


def in_float32(function: Callable[..., Value]) -> Function:
    """An operator's function from a function of its arrays, in float32 at least.

    The result has the type of the first array.
    """

    def operator(attributes: Attributes, *arrays: Array | None) -> tuple[Value, ...]:
        first = arrays[0]
        assert first is not None
        result = np.asarray(function(attributes, *widened_all(*arrays)))
        return (result.astype(first.dtype, copy=False),)

    return operator
