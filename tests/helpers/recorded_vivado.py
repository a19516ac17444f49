# SPDX-License-Identifier: Apache-2.0
"""Runs the Vivado flow of a board in Tcl, against a model of Vivado that records every command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from vdla.boards.board import Board
from vdla.boards.vivado.flow import flow_files
from vdla.hardware.config import Config

MODEL = Path(__file__).resolve().parent.parent / "boards" / "vivado" / "recording_vivado.tcl"
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of the flow: folder, exit code, error text, and the calls, each a list of words."""

    folder: Path
    code: int
    error: str
    calls: list[list[str]]

    def of(self, command: str) -> list[list[str]]:
        """The words of every call of a command."""
        return [words for name, *words in self.calls if name == command]

    def value_of(self, words: list[str], option: str) -> str:
        return words[words.index(option) + 1]


def write_flow(board: Board, config: Config, folder: Path) -> None:
    for name, text in flow_files(board, config).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_flow(
    folder: Path, board: Board, *, slack: str = "0.123", version: str = "2022.1", parts: str | None = None
) -> Recorded:
    """Execute build.tcl in a folder; skips where there is no Tcl."""
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        pytest.skip("needs tclsh (apt-get install tcl)")
    record = folder / "record.txt"
    installed = board.board_part if parts is None else parts
    done = subprocess.run(
        [tclsh, str(MODEL), str(folder / "build.tcl"), str(record), slack, version, installed],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    lines = record.read_text(encoding="utf-8").splitlines()
    return Recorded(folder, done.returncode, done.stderr, [line.split("\x1f") for line in lines])
