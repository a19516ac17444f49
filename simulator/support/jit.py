# SPDX-License-Identifier: Apache-2.0
"""The decorators of compiled functions: entry points cached on disk, and helpers compiled into
them. Where there is no Numba, they are plain Python.

The cache of an entry point is keyed by the source of every module in _SOURCES, not only by its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from vdla import hardware
from vdla.support.plain import PLAIN, plain

if not PLAIN:
    from numba import njit

    from vdla.support.compile_once import compile_once

Int = Any  # int64 in compiled code; NumPy's operators give type checkers other types

Function = TypeVar("Function", bound=Callable[..., object])

# Compiled code contains column numbers, opcodes and operations, so the instruction set counts too.
_SOURCES = (
    "hardware/isa/encoding.py",
    "hardware/isa/formats.py",
    "hardware/isa/instruction_set.py",
    "hardware/isa/instructions.py",
    "hardware/isa/units.py",
    "simulator/function/dot_unit.py",
    "simulator/function/extension_arithmetic.py",
    "simulator/function/kernels.py",
    "simulator/function/kernels_stream.py",
    "simulator/function/kernels_tiled.py",
    "simulator/function/lanes.py",
    "simulator/support/jit.py",
    "simulator/timing/vector_stalls.py",
    "simulator/timing/bursts.py",
    "simulator/timing/cycle_counts.py",
    "simulator/timing/event_loop.py",
    "simulator/timing/layout.py",
    "simulator/timing/pages.py",
    "simulator/timing/wait_table.py",
)


@cache
def _digest() -> str:
    folders = {"hardware": Path(hardware.__file__).parent, "simulator": Path(__file__).parent.parent}
    paths = (source.partition("/") for source in _SOURCES)
    return hashlib.sha256(b"".join((folders[folder] / name).read_bytes() for folder, _, name in paths)).hexdigest()


_ENTRY: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_HELPER: dict[str, Any] = {**_ENTRY, "cache": False, "no_cpython_wrapper": True}
_BORROWING: dict[str, Any] = {"_nrt": False}  # callers own all arrays, references are not counted (ADR 59)


def entry_point(function: Function) -> Function:
    """An entry point: compiled at its first call, cached on disk."""
    return plain(function) if PLAIN else _entry(function, _ENTRY)


def borrowing_entry_point(function: Function) -> Function:
    """An entry point that makes no array, nor do the helpers that it calls: these borrow theirs."""
    return plain(function) if PLAIN else _entry(function, _ENTRY | _BORROWING)


def _entry(function: Function, options: dict[str, Any]) -> Function:
    """A function compiled with options, cached by all sources."""
    result: Any = njit(**options)(function)
    stored = getattr(result._cache, "_cache_file", None)
    if stored is not None and hasattr(stored, "_source_stamp"):
        stored._source_stamp = (stored._source_stamp, _digest())
    compile_once(result)
    entry: Function = result
    return entry


def is_compiled(entry: Callable[..., object]) -> bool:
    """Whether an entry point is compiled, in this process or on disk, or need not be."""
    if PLAIN:
        return True
    compiled: Any = entry
    stored = getattr(compiled._cache, "_cache_file", None)
    return bool(compiled.signatures) or (stored is not None and bool(stored._load_index()))


def helper(function: Function) -> Function:
    """A function called by compiled code only; no Python wrapper, half the compile time."""
    if PLAIN:
        return function
    result: Function = njit(**_HELPER)(function)
    return result


def helper_of(entry: Function) -> Function:
    """The function of an entry point for compiled callers, without the code that takes Python's
    arguments: a caller that has one compiles faster.
    """
    compiled: Any = entry
    result: Function = helper(compiled.py_func)
    return result


def inline_helper(function: Function) -> Function:
    """A helper inlined into each caller, where constant arguments are propagated."""
    if PLAIN:
        return function
    result: Function = njit(**_HELPER, forceinline=True)(function)
    return result
