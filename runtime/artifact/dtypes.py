"""Element types of values as NumPy dtypes; those of `ml_dtypes` where that package is installed."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from vdla.runtime.artifact.errors import ArtifactError

_STORED_IN_INT8 = ("int2", "int4")
_NUMPY = {"bool", "float16", "float32", "float64", "complex64", "complex128"}
_NUMPY |= {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype that stores elements of a type.

    Raises:
        ArtifactError: no such type, or one of a package that is not installed.
    """
    if name in _STORED_IN_INT8:
        return np.dtype(np.int8)
    if name in _NUMPY:
        return np.dtype(name)
    if name == "str":
        return np.dtype(object)
    try:
        import ml_dtypes  # only networks of such types need it

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError, TypeError):
        raise ArtifactError(f"artifact: element type must be one that NumPy or ml_dtypes has, got {name}") from None
    return found


def size_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """The bytes of an array."""
    return prod(shape) * numpy_dtype(dtype).itemsize
