# SPDX-License-Identifier: Apache-2.0
"""The decorators of this room's compiled functions: entry points cached on disk, and helpers.
Where there is no Numba, they are plain Python.

The cache of an entry point is keyed by the source of all files of the room, since helpers and
constants of other files are compiled into it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from vdla.support.plain import PLAIN, plain

if not PLAIN:
    from numba import njit

    from vdla.support.compile_once import compile_once

Int = Any  # int64 in compiled code; NumPy's operators give type checkers other types

Function = TypeVar("Function", bound=Callable[..., object])

_HELPER: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


@cache
def _digest() -> str:
    """The hash of all files of the room."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def entry_point(function: Function) -> Function:
    """An entry point: compiled at its first call, cached on disk."""
    if PLAIN:
        return plain(function)
    result: Any = njit(**_HELPER, cache=True)(function)
    stored = getattr(result._cache, "_cache_file", None)
    if stored is not None and hasattr(stored, "_source_stamp"):
        stored._source_stamp = (stored._source_stamp, _digest())
    compile_once(result)
    entry: Function = result
    return entry


def helper(function: Function) -> Function:
    """A function called by compiled code only."""
    if PLAIN:
        return function
    options = {**_HELPER, "no_cpython_wrapper": True, "forceinline": True}
    result: Function = njit(**options)(function)
    return result


def routine(function: Function) -> Function:
    """A function called by compiled code only that is not inlined, since it is long."""
    if PLAIN:
        return function
    options = {**_HELPER, "no_cpython_wrapper": True}
    result: Function = njit(**options)(function)
    return result


def routine_of(entry: Function) -> Function:
    """The function of an entry point for compiled callers."""
    compiled: Any = entry
    result: Function = routine(compiled.__wrapped__ if PLAIN else compiled.py_func)
    return result
