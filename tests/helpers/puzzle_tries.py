# SPDX-License-Identifier: Apache-2.0
"""The solutions of puzzles in `tests/puzzles`, and tries in `wrong` that are refused.

A wrong try is an edit of the solution: a line that says what is wrong, the lines that it replaces
(`- `), those that replace them (`+ `), and the reason that the user reads (`> `). Without lines to
replace, the whole file is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import vdla

HERE = Path(__file__).resolve().parents[1] / "puzzles"
_LICENCE = "SPDX-License-Identifier"


@dataclass(frozen=True)
class WrongTry:
    """An edit of a solution and the reason for which it is refused."""

    puzzle: str
    what: str
    old: str
    new: str
    reason: str

    def text(self) -> str:
        """The file that a user hands in."""
        if not self.old:
            return self.new
        text = solution(self.puzzle)
        assert text.count(self.old) == 1, f"{self.puzzle}, {self.what}: {text.count(self.old)} places to edit"
        return text.replace(self.old, self.new)

    def written(self, reason: str) -> str:
        """The entry of the file with another reason."""
        parts = (("- ", self.old), ("+ ", self.new), ("> ", reason))
        lines = [f"{mark}{line}".rstrip() for mark, text in parts if text for line in text.split("\n")]
        return "\n".join([f"# {self.what}", *lines]) + "\n"


def solution(name: str) -> str:
    """The text of a solution, without the licence."""
    lines = (HERE / f"{name}{vdla.puzzle(name).suffix}").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if _LICENCE not in line)


def wrong_file(name: str) -> Path:
    """The file of the wrong tries of a puzzle."""
    return HERE / "wrong" / f"{name}.txt"


def wrong_tries(name: str) -> Iterator[WrongTry]:
    """The entries of a file, which empty lines separate."""
    for entry in wrong_file(name).read_text(encoding="utf-8").strip().split("\n\n"):
        what, *lines = entry.split("\n")
        if _LICENCE in what:
            continue
        parts = ("\n".join(line[2:] for line in lines if line[:1] == mark) for mark in "-+>")
        yield WrongTry(name, what.removeprefix("# "), *parts)
