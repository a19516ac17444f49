# SPDX-License-Identifier: Apache-2.0
"""A puzzle, as a record; `check` grades a try of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vdla.compiler import te
from vdla.compiler.ir import Function
from vdla.compiler.te.tensors import placeholders_of
from vdla.hardware.program import Program
from vdla.puzzles.attempt import Attempt, Tried, assembled, assembled_text
from vdla.puzzles.grade import PuzzleGrade
from vdla.puzzles.judgement import Wrong, judged
from vdla.support.errors import Error

Build = Callable[[Attempt, "Puzzle"], Program]
"""The program of a try. What refuses it raises `Error`, whose message is the reason."""

_LANGUAGES = {".s": "asm", ".py": "python", ".sv": "systemverilog"}


class PuzzleError(Error, ValueError):
    """An unknown puzzle or hint, or what cannot be a try."""


def from_assembly(attempt: Attempt, puzzle: Puzzle) -> Program:
    """The program that a text in assembly is, on the machine and with the tensors of the start."""
    return assembled(attempt, assembled_text(puzzle.start, "start.s"))


@dataclass(frozen=True, kw_only=True, repr=False)
class Puzzle:
    """`task` is the text without heading, start and limits, `start` the file to start from.

    `result` gives the tensor that the output of the program must be; its placeholders are the
    inputs. `suffix` is that of the files that are tries.
    """

    name: str
    title: str
    task: str
    start: str
    hints: tuple[str, str, str]
    result: Callable[[], te.Tensor]
    limit: int
    best: int
    build: Build = from_assembly
    suffix: str = ".s"

    @property
    def text(self) -> str:
        """The puzzle as Markdown: heading, task, the file to start from, limit of cycles."""
        limit = f"At most {self.limit} cycles; best known: {self.best}."
        return f"# {self.title}\n\n{self.task}\n\n```{_LANGUAGES[self.suffix]}\n{self.start}```\n\n{limit}\n"

    def hint(self, number: int) -> str:
        """Hint 1, 2 or 3; each says more than the one before it. PuzzleError for another number."""
        if number not in (1, 2, 3):
            raise PuzzleError(f"puzzle {self.name}: hint must be 1, 2 or 3, got {number}")
        return self.hints[number - 1]

    def check(self, attempt: Tried) -> PuzzleGrade:
        """The grade of a try: a `Program`, the text of a file, the `Path` of one, or a function.

        It is verified, compared with the expression on random data and on edges and, on unknowns,
        for all inputs, and its cycles are counted.

        Raises:
            PuzzleError: a file that cannot be a try: another suffix.
            OSError: a file that cannot be read.
        """
        if isinstance(attempt, Path) and attempt.suffix != self.suffix:
            raise PuzzleError(f"puzzle {self.name}: the try must be a {self.suffix} file, got {attempt}")
        cycles = None
        try:
            program = self.build(Attempt.of(attempt, f"try{self.suffix}"), self)
            checks, cycles = judged(program, self.function(), self.limit)
            reason = ""
        except Wrong as error:
            checks, cycles, reason = "", error.cycles, str(error)
        except Error as error:
            checks, reason = "", str(error)
        return PuzzleGrade(
            puzzle=self.name, reason=reason, checks=checks, cycles=cycles, limit=self.limit, best=self.best
        )

    def function(self) -> Function:
        """The expression as a function of the program's inputs, which gives its output."""
        result = self.result()
        return te.create_function(placeholders_of(result), [result], self.name.replace("-", "_"))

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Puzzle {self.name}: at most {self.limit} cycles, best known {self.best}>"
