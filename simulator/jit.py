"""The one way in which functions of the simulator are compiled: entry points cached on disk, helpers inside of them.

The cache of an entry point is bound to the text of every module it may have been compiled from, not only to its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

Int = Any  # an integer of compiled code: int64 there, whatever numpy makes of it in the eyes of a type checker

Function = TypeVar("Function", bound=Callable[..., object])

_SOURCES = (
    "jit.py",
    "kernels.py",
    "kernels_vnni.py",
    "vnni.py",
    "conflicts.py",
    "timing_kernel.py",
    "timing_counts.py",
    "work.py",
)


@cache
def _digest() -> str:
    folder = Path(__file__).parent
    texts = [(folder / name).read_bytes() for name in _SOURCES if (folder / name).exists()]
    return hashlib.sha256(b"".join(texts)).hexdigest()


_ENTRY: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_HELPER: dict[str, Any] = {**_ENTRY, "cache": False, "no_cpython_wrapper": True}


def compiled(function: Function) -> Function:
    """An entry point: compiled at its first call; the machine code is kept beside the module."""
    result: Any = njit(**_ENTRY)(function)
    stored = getattr(result._cache, "_cache_file", None)
    if stored is not None and hasattr(stored, "_source_stamp"):
        stored._source_stamp = (stored._source_stamp, _digest())
    entry: Function = result
    return entry


def helper(function: Function) -> Function:
    """A function that only compiled functions call; leaving out its Python entry halves the time to compile it."""
    result: Function = njit(**_HELPER)(function)
    return result
