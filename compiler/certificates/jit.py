# SPDX-License-Identifier: Apache-2.0
"""The decorators of this room's compiled functions: entry points cached on disk, and helpers.
Where there is no Numba, they are plain Python.

The cache of an entry point is keyed by the source of its file, of the files of this room that it
imports, and of those elsewhere in `_ELSEWHERE`: their helpers and constants are compiled into it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
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

# Callers own all arrays, so that compiled code need not count references to them at every call.
_HELPER: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


_ROOM = "vdla.compiler.certificates"
_IMPORT = re.compile(rf"^from {re.escape(_ROOM)}(?:\.(\w+))? import (.+)$", re.MULTILINE)
_ELSEWHERE = (
    "compiler/codegen/vdla/intrinsics/requantise.py",
    "hardware/isa/encoding.py",
    "hardware/isa/formats.py",
    "hardware/isa/instruction_set.py",
    "hardware/isa/instructions.py",
    "hardware/isa/units.py",
)


@cache
def _files_behind(file: Path) -> frozenset[Path]:
    """A file of the room and those of it that it imports, however indirectly."""
    known, waiting = {file}, [file]
    while waiting:
        new = set(_imported(waiting.pop())) - known
        known |= new
        waiting += new
    return frozenset(known)


def _imported(file: Path) -> Iterator[Path]:
    """The files of the room that one of it imports in one line."""
    for module, names in _IMPORT.findall(file.read_text(encoding="utf-8")):
        for name in [module] if module else re.findall(r"(?:^|, )(\w+)", names):
            yield file.parent / f"{name}.py"


@cache
def digest_of(file: Path) -> str:
    """The hash of all that is compiled into the entry points of a file."""
    packages = {"compiler": file.parents[1], "hardware": Path(hardware.__file__).parent}
    elsewhere = (packages[name.partition("/")[0]] / name.partition("/")[2] for name in _ELSEWHERE)
    files = [*sorted(_files_behind(file)), *elsewhere]
    return hashlib.sha256(b"".join(one.read_bytes() for one in files)).hexdigest()


def entry_point(function: Function) -> Function:
    """An entry point: compiled at its first call, cached on disk."""
    if PLAIN:
        return plain(function)
    result: Any = njit(**_HELPER, cache=True)(function)
    stored = getattr(result._cache, "_cache_file", None)
    if stored is not None and hasattr(stored, "_source_stamp"):
        stored._source_stamp = (stored._source_stamp, digest_of(Path(function.__code__.co_filename)))
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
