# SPDX-License-Identifier: Apache-2.0
"""Runs the Vivado flow of a board in Tcl, against a model of Vivado that records every command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from vdla.boards.board import Board
from vdla.boards.vivado.flow import flow_files
from vdla.hardware.config import Config
from vdla.support.errors import Error

MODEL = Path(__file__).resolve().parent / "recording_vivado.tcl"
TIMEOUT_S = 120


class TclError(Error, RuntimeError):
    """There is no Tcl that could execute the flow."""


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
        """The word behind an option of a call."""
        return words[words.index(option) + 1]

    def mapped(self) -> list[tuple[str, str, int, int]]:
        """Address space, segment, offset and bytes of every assigned range."""
        return [
            (
                self.value_of(words, "-target_address_space"),
                next(word for word in words[6:] if "/" in word),
                int(self.value_of(words, "-offset"), 16),
                int(self.value_of(words, "-range"), 16),
            )
            for words in self.of("assign_bd_address")
        ]


def write_flow(board: Board, config: Config, folder: Path) -> None:
    """Write the files of the flow into a folder."""
    for name, text in flow_files(board, config).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_flow(
    folder: Path,
    board: Board,
    *,
    slack: str = "0.123",
    version: str = "2022.1",
    parts: str | None = None,
    unconstrained: int = 0,
) -> Recorded:
    """Execute build.tcl in a folder; TclError where there is no Tcl.

    The model answers with a slack in ns, its version, the installed board files, and the number of
    endpoints without a constraint.
    """
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        raise TclError("vivado model: tclsh must be installed, got none; apt-get install tcl")
    record = folder / "record.txt"
    installed = board.board_part if parts is None else parts
    done = subprocess.run(
        [tclsh, str(MODEL), str(folder / "build.tcl"), str(record), slack, version, installed, str(unconstrained)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    lines = record.read_text(encoding="utf-8").splitlines()
    return Recorded(folder, done.returncode, done.stderr, [line.split("\x1f") for line in lines])
