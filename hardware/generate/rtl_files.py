# SPDX-License-Identifier: Apache-2.0
"""The SystemVerilog files of the machine in the one order in which every tool reads them.

Packages come first, each after those it uses. `vdla_pkg.sv` is not among the files: it is generated
for each configuration (`vdla.hardware.generate.svgen`) and must be read before them.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "rtl"
PACKAGE = "vdla_pkg.sv"
TOP = "vdla"
EXTENSION_FOLDER = "extension"
"""Beside the files of every machine: modules of machines with extensions."""

_NAME = re.compile(r"\b(?:vdla|axi|axil)_\w+")


def rtl_files(folder: Path = FOLDER) -> list[Path]:
    """All files of the RTL in a folder but the generated package."""
    files = sorted(path for path in folder.glob("*.sv") if path.name != PACKAGE)
    packages = {path.stem: path for path in files if path.stem.endswith("_pkg")}
    used = {name: re.findall(r"\b(\w+_pkg)::", path.read_text(encoding="utf-8")) for name, path in packages.items()}
    order = TopologicalSorter({name: sorted((set(uses) & set(packages)) - {name}) for name, uses in used.items()})
    return [packages[name] for name in order.static_order()] + [path for path in files if path.stem not in packages]


def needed_files(*roots: Path, folder: Path = FOLDER) -> list[Path]:
    """`roots` and every file they name, directly or not: those of the RTL in its folder in their
    order, then those outside of it.

    A file outside of the RTL, such as a test's, may also name its neighbours.
    """
    result: set[Path] = set()
    pending = list(roots)
    while pending:
        path = pending.pop()
        if path not in result:
            result.add(path)
            pending += _named_files(path, folder)
    of_rtl = [path for path in rtl_files(folder) if path in result]
    return [*of_rtl, *sorted(result.difference(of_rtl))]


def _named_files(path: Path, folder: Path) -> list[Path]:
    names = dict.fromkeys(_NAME.findall(path.read_text(encoding="utf-8")))
    files = [home / f"{name}.sv" for name in names for home in {folder, path.parent}]
    return [file for file in files if file.name != PACKAGE and file.exists()]
