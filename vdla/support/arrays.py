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


def cast_hint(name: str, array: Array, dtype: Any) -> str:  # noqa: ANN401  what names a type
    """` (x.astype("float32") converts it)` where that keeps the kind of numbers, else empty."""
    wanted = np.dtype(dtype)
    if array.dtype == wanted or not np.can_cast(array.dtype, wanted, "same_kind"):
        return ""
    return f' ({name}.astype("{wanted.name}") converts it)'
