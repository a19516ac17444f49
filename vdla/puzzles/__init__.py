# SPDX-License-Identifier: Apache-2.0
"""Puzzles that teach how the accelerator works, and grade themselves.

A module of this folder has one puzzle: its text, the file to start from, three hints, the tensor
expression that a try must compute, a limit of cycles and the fewest that are known.
"""

from vdla.puzzles.grade import PuzzleGrade
from vdla.puzzles.puzzle import Puzzle, PuzzleError
from vdla.puzzles.registry import NAMES, puzzle

__all__ = ["NAMES", "Puzzle", "PuzzleError", "PuzzleGrade", "puzzle"]
