# SPDX-License-Identifier: Apache-2.0
"""All puzzles by name, in the order in which they teach."""

from __future__ import annotations

from importlib import import_module

from vdla.puzzles.puzzle import Puzzle, PuzzleError
from vdla.support.suggest import one_of

NAMES = (
    "first-load", "tokens", "deadlock", "race", "one-gemm", "reduction", "micro-ops", "bias", "requantise",
    "vector", "padding", "strided-convolution", "double-buffering",
    "tiling", "resident-weights", "virtual-threads", "pipelined-convolution", "intrinsic", "instruction",
    "datapath",
)  # fmt: skip
"""The module of a name has `_` for `-`."""


def puzzle(name: str) -> Puzzle:
    """A puzzle: its `text`, `start` and `hint(1)` to `hint(3)`; `check(program)` grades a try.

    A try is a `Program`, the text of a file, the `Path` of one, or, where the puzzle asks for a
    function, that function. A notebook shows a puzzle as its text.

    Raises:
        PuzzleError: an unknown name; the message lists all of them.
    """
    if name not in NAMES:
        raise PuzzleError(f"puzzle: name must be {one_of(name, NAMES)}")
    record: Puzzle = import_module(f"vdla.puzzles.{name.replace('-', '_')}").PUZZLE
    return record
