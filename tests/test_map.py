# SPDX-License-Identifier: Apache-2.0
"""The map in CONTRIBUTING.md: its paths exist, and every room is on it."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

from test_imports import ROOMS

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FOLDERS = (
    "vdla", "hardware", "compiler", "simulator", "runtime", "boards", "verification", "benchmarks", "tests", "docs",
    "examples",
)  # fmt: skip


def paths() -> set[str]:
    """The paths in backticks."""
    found = re.findall(r"`([\w/.]+)`", TEXT)
    return {path for path in found if path.split("/")[0] in FOLDERS and "/" in path}


def test_every_path_on_the_map_exists() -> None:
    assert [path for path in sorted(paths()) if not (ROOT / path).exists()] == []
    assert len(paths()) > 50


def test_every_room_is_on_the_map() -> None:
    folders = {room.replace(".", "/") for room in ROOMS if (ROOT / room.replace(".", "/")).is_dir()}
    shown = {path.rstrip("/") for path in paths()}
    # one line for each of these, with all below it
    below = {"benchmarks", "boards", "charts", "commands", "networks", "notebook", "puzzles", "support", "verification"}
    missing = {folder for folder in folders if folder.split("/")[0] not in below} - shown
    assert missing <= {"compiler/codegen", "compiler/codegen/vdla/intrinsics", "compiler/codegen/llvm/intrinsics"}


def test_every_row_of_a_table_has_the_cells_of_its_head() -> None:
    lines = TEXT.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("|---"):
            rows = takewhile(lambda row: row.startswith("|"), lines[number + 1 :])
            assert [row for row in rows if row.count("|") != line.count("|")] == []
