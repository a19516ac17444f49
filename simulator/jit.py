"""The one way in which functions of the simulator are compiled: entry points cached on disk, helpers only inside of them.

The cache of an entry point is bound to the text of every module it may have been compiled from, not only to its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])

_SOURCES = ("jit.py", "kernels.py", "kernels_vnni.py", "vnni.py", "conflicts.py", "timing_kernel.py", "timing_counts.py", "work.py")


@cache
def _digest() -> str:
    folder = Path(__file__).parent
    texts = [(folder / name).read_bytes() for name in _SOURCES if (folder / name).exists()]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def compiled(function: Function) -> Function:
    """An entry point: compiled at its first call; the machine code is kept beside the module."""
    result = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    stored = getattr(result._cache, "_cache_file", None)
    if stored is not None and hasattr(stored, "_source_stamp"):
        stored._source_stamp = (stored._source_stamp, _digest())
    compiled_function: Function = result
    return compiled_function


def helper(function: Function) -> Function:
    """A function that only compiled functions call; leaving out its Python entry halves the time to compile it."""
    result: Function = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function)
    return result
