# SPDX-License-Identifier: Apache-2.0
"""The sources of the package, parsed once for all tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = (
    "support", "hardware", "compiler", "simulator", "runtime", "boards", "networks", "charts", "verification",
    "puzzles", "playground", "viewer", "debugger", "benchmarks", "commands", "notebook",
)  # fmt: skip
_IN_PACKAGE = (  # folders of `vdla` itself
    "support", "networks", "charts", "puzzles", "playground", "viewer", "debugger", "commands", "notebook",
)  # fmt: skip


@dataclass(frozen=True)
class SourceFile:
    """A file of the package, and its syntax tree."""

    path: Path
    tree: ast.Module


@cache
def source_files() -> Mapping[str, SourceFile]:
    """name below `vdla`: the file of a module; a package has the name of its folder."""
    files = {}
    for layer in LAYERS:
        folder = ROOT / (f"vdla/{layer}" if layer in _IN_PACKAGE else layer)
        for path in sorted(folder.rglob("*.py")):
            parts = (layer, *path.relative_to(folder).with_suffix("").parts)
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            files[name] = SourceFile(path, ast.parse(path.read_text(encoding="utf-8")))
    return files
