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

from vdla import hardware

Int = Any  # an integer of compiled code: int64 there, whatever numpy makes of it in the eyes of a type checker

Function = TypeVar("Function", bound=Callable[..., object])

# Kernels hold the numbers of columns, opcodes and operations of the instruction set, so its modules count as well.
_SOURCES = (
    "hardware/isa/encoding.py",
    "hardware/isa/formats.py",
    "hardware/isa/instructions.py",
    "hardware/isa/units.py",
    "simulator/adversary/machine.py",
    "simulator/function/kernels.py",
    "simulator/function/kernels_vnni.py",
    "simulator/function/vnni.py",
    "simulator/support/jit.py",
    "simulator/timing/bank_conflicts.py",
    "simulator/timing/cycle_counts.py",
    "simulator/timing/event_loop.py",
    "simulator/timing/layout.py",
    "simulator/timing/wait_table.py",
)


@cache
def _digest() -> str:
    folders = {"hardware": Path(hardware.__file__).parent, "simulator": Path(__file__).parent.parent}
    paths = (source.partition("/") for source in _SOURCES)
    return hashlib.sha256(b"".join((folders[folder] / name).read_bytes() for folder, _, name in paths)).hexdigest()


_ENTRY: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_HELPER: dict[str, Any] = {**_ENTRY, "cache": False, "no_cpython_wrapper": True}


def entry_point(function: Function) -> Function:
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


def inline_helper(function: Function) -> Function:
    """A helper that becomes part of each caller, so that arguments which are constants there are constants inside."""
    result: Function = njit(**_HELPER, forceinline=True)(function)
    return result
