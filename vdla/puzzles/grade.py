# SPDX-License-Identifier: Apache-2.0
"""The grade of a try: solved, or the first reason why not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PuzzleGrade:
    """What a puzzle says of a try.

    `reason` is empty if it is solved. `cycles` is None where the try has no program, or one that
    must not run.
    """

    puzzle: str
    reason: str
    checks: str
    cycles: int | None
    limit: int
    best: int

    @property
    def solved(self) -> bool:
        """Whether the try is right and within the limit of cycles."""
        return not self.reason

    def __str__(self) -> str:
        if not self.solved:
            return f"{self.puzzle}: not solved: {self.reason}"
        best = ", the best known" if self.cycles == self.best else f", best known {self.best}"
        fewer = self.cycles is not None and self.cycles < self.best
        best = f", fewer than the best known {self.best}" if fewer else best
        return f"{self.puzzle}: solved in {self.cycles} cycles (limit {self.limit}{best}); {self.checks}"

    __repr__ = __str__
