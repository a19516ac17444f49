# SPDX-License-Identifier: Apache-2.0
"""Which puzzles a user has solved: the fewest cycles by name, in a file of the user."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from vdla.commands import CommandError
from vdla.support.atomic import write_text
from vdla.support.json_file import read_table


@dataclass(frozen=True, slots=True)
class PuzzleProgress:
    """The fewest cycles of each puzzle that is solved."""

    path: Path
    cycles: dict[str, int]

    @classmethod
    def read(cls) -> PuzzleProgress:
        """What the file says; nothing is solved without one. CommandError if it is broken."""
        path = _path()
        kept = read_table(path, CommandError) if path.exists() else {}
        for name, cycles in kept.items():
            if type(cycles) is not int:
                raise CommandError(f"{path}: cycles of {name} must be an integer, got {cycles!r}; remove the file")
        return cls(path, kept)

    def solved(self, name: str, cycles: int) -> None:
        """Keep a solution, if it is the first or takes fewer cycles than the one before."""
        if cycles < self.cycles.get(name, cycles + 1):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, json.dumps({**self.cycles, name: cycles}, indent=2) + "\n")


def _path() -> Path:
    """Below XDG_STATE_HOME or ~/.local/state; a relative XDG_STATE_HOME is ignored."""
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "vdla" / "puzzles.json"
