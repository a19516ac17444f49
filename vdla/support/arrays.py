# SPDX-License-Identifier: Apache-2.0
"""Names of the types of arrays, and how to get one of another type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


def occurrences(numbers: Array, least: int = 0, weights: Array | None = None) -> Array:
    """How often each number from 0 on occurs, or the sum of its weights, for at least `least`
    numbers. `np.bincount` takes indices only, which have 32 bits on WebAssembly.
    """
    return np.bincount(numbers.astype(np.intp, copy=False), weights, least)


def cast_hint(name: str, array: Array, dtype: Any) -> str:  # noqa: ANN401  what names a type
    """` (x.astype("float32") converts it)` where that keeps the kind of numbers, else empty."""
    wanted = np.dtype(dtype)
    if array.dtype == wanted or not np.can_cast(array.dtype, wanted, "same_kind"):
        return ""
    return f' ({name}.astype("{wanted.name}") converts it)'
