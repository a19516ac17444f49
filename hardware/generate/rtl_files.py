"""The SystemVerilog of the machine: which files, and in which order a tool must read them.

Packages come first, each after those it uses. The package `vdla_pkg` is not among the files: it is generated for each
configuration (`vdla.hardware.generate.svgen`).
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "rtl"
PACKAGE = "vdla_pkg.sv"
TOP = "vdla"


def rtl_files() -> list[Path]:
    """The files but the generated package, in the order in which they are read."""
    files = sorted(path for path in FOLDER.glob("*.sv") if path.name != PACKAGE)
    packages = {path.stem: path for path in files if path.stem.endswith("_pkg")}
    used = {name: re.findall(r"\b(\w+_pkg)::", path.read_text(encoding="utf-8")) for name, path in packages.items()}
    order = TopologicalSorter({name: (set(uses) & set(packages)) - {name} for name, uses in used.items()})
    return [packages[name] for name in order.static_order()] + [path for path in files if path.stem not in packages]
