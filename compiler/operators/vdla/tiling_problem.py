# SPDX-License-Identifier: Apache-2.0
"""The problem of a tiling, and tilings: sizes of a tile in blocks and pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vdla.hardware.config import Config

Count = Any
"""An integer, or an array of one for each candidate."""

LOOPS = ("chunks", "cols", "rows", "batches", "groups")
"""The tile loops, innermost first."""
SIZES = ("rows", "cols", "out_blocks", "in_blocks")
"""The sizes of a tile."""
MOST_THREADS, STRIPS = 4, (1, 2, 4)


@dataclass(frozen=True, slots=True)
class TilingProblem:
    """An operator in blocks: its output, kernel taps, and the input window of a tile.

    `row_step`, `row_span`: n output rows need (n - 1) * row_step + row_span input rows; columns
    likewise. `weights`: entries for one output and one input block. `separate`: an output block
    reads only the input blocks of its channels. `phases`: results at one position of the tile
    loops. `inputs`: windows read, each of `unit` entries per pixel; `through_acc`: windows are held
    in the accumulator, `through_wgt`: in the weight buffer. `lanes`: entries of the scale for one
    output block. `kept`: the share of taps that do not read padding, which is skipped; `cuts`: the
    row borders and column borders at which the skipped taps change; `breaks`: these and the changes
    of the scale's stride, each of which splits a computation into several instructions. `chained`:
    another operator hides the loads of the first tile. `sections`: the number of such problems in
    sequence, each with separate output blocks and weights. `sums`: entries of the accumulator for
    one result. `entry`: bytes read per window entry, relative to an entry of the input buffer.
    `step`: cycles of one term, `pause`: cycles of an instruction besides its terms, where an
    extension computes them. `after`: cycles for each finished sum, in passes of their own.
    `resident`: entries of the input, the weight and the accumulator buffer that stay occupied.
    """

    batches: int
    out_blocks: int
    in_blocks: int
    rows: int
    cols: int
    taps: int
    row_step: int
    row_span: int
    col_step: int
    col_span: int
    weights: int
    raw: bool = False
    separate: bool = False
    phases: int = 1
    inputs: int = 1
    unit: int = 1
    through_acc: bool = False
    through_wgt: bool = False
    lanes: int = 1
    kept: float = 1.0
    cuts: tuple[int, int] = (0, 0)
    breaks: tuple[int, int] = (0, 0)
    chained: bool = False
    sections: int = 1
    sums: int = 1
    entry: float = 1.0
    step: int = 1
    pause: int = 0
    after: int = 0
    resident: tuple[int, int, int] = (0, 0, 0)

    @property
    def joined(self) -> TilingProblem:
        """The problem with all sections merged to one."""
        return replace(self, out_blocks=self.sections * self.out_blocks, sections=1)

    def window(self, rows: Count, cols: Count) -> Count:
        """Input entries, of one channel block, for a tile of output."""
        pixels = ((rows - 1) * self.row_step + self.row_span) * ((cols - 1) * self.col_step + self.col_span)
        return pixels * self.inputs * self.unit

    @property
    def loops(self) -> tuple[str, ...]:
        """The tile loops that virtual threads can share."""
        return LOOPS if self.in_blocks > 1 or not self.separate else LOOPS[1:]

    def choices(self, most: int) -> dict[str, tuple[int | str | bool, ...]]:
        """The values of each choice of a tiling, with sizes up to `most`.

        Strips gain nothing where the vector unit loads windows itself, in order, or where other
        operators of a chain hide both ends.
        """
        by_blocks = self.in_blocks > 1 and not self.separate
        return {
            **{name: tuple(range(1, min(getattr(self, name), most) + 1)) for name in SIZES},
            "keep_weights": (False, True),
            "threads": tuple(range(1, MOST_THREADS + 1)),
            "threads_over": self.loops,
            "by_blocks": (False, True) if by_blocks else (False,),
            "strips": STRIPS[:1] if self.through_acc or self.chained else STRIPS,
        }

    def window_blocks(self, out_blocks: Count, in_blocks: Count) -> Count:
        """Input channel blocks that a tile holds at once."""
        return out_blocks * in_blocks if self.separate else in_blocks

    @property
    def least_cycles(self) -> float:
        """A lower bound of cycles: one for each step of the sums."""
        results = self.batches * self.sections * self.out_blocks * self.results(self.rows, self.cols)
        return float(results * self.in_blocks * self.taps * self.kept)

    def results(self, rows: Count, cols: Count) -> Count:
        """Results of one tile in one output block."""
        return rows * cols * self.phases


@dataclass(frozen=True, slots=True)
class Tiling:
    """Sizes of one tile in blocks and pixels.

    With `keep_weights`, the weights of a group of output blocks stay on the chip for all its tiles.
    The iterations of the loop `threads_over` are distributed over `threads` virtual threads. Sizes
    need not divide extents: the last tile has the remainder. With `by_blocks`, the sums of an
    output block accumulate one input block at a time, just after its window and weights are loaded,
    so that the first computation begins early. `strips` split a tile where its computation would
    wait for a transfer: with one thread every tile, else only the first window and the last
    results.
    """

    rows: int
    cols: int
    out_blocks: int
    in_blocks: int
    keep_weights: bool
    threads: int
    threads_over: str
    by_blocks: bool = False
    strips: int = 1

    def __str__(self) -> str:
        kept = ", weights kept on chip" if self.keep_weights else ""
        kept += ", block by block" if self.by_blocks else ""
        kept += f", {self.strips} strips" if self.strips > 1 else ""
        return (
            f"{self.rows}x{self.cols} pixels, {self.out_blocks} output and {self.in_blocks} input blocks{kept}, "
            f"{self.threads} virtual thread{'s' * (self.threads > 1)} over {self.threads_over}"
        )


def all_lanes_fit(config: Config, problem: TilingProblem) -> bool:
    """Whether the scale buffer holds the lanes of all output blocks."""
    return problem.out_blocks * problem.lanes <= config.scl_depth


def lanes_are_replaced(config: Config, problem: TilingProblem) -> bool:
    """Whether position-dependent scale lanes of a group are loaded only after the previous ones
    have been used: sections share one buffer, and so do groups whose lanes do not all fit.
    """
    return problem.lanes > 1 and (problem.sections > 1 or not all_lanes_fit(config, problem))


def all_weights_fit(config: Config, problem: TilingProblem) -> bool:
    """Whether the weight buffer holds the weights of all output blocks."""
    return problem.out_blocks * problem.in_blocks * problem.weights <= config.wgt_depth - problem.resident[1]
