"""The iterations of the tile loops that an estimate runs, as columns over steps and candidates.

Of a loop with more than `KEPT` iterations, the first ones and the last one are run; the last
`REPEATED` of the first ones stand for all that are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, TilingProblem

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KEPT = 6
REPEATED = 2  # as many as there usually are virtual threads, which take turns

_CHUNKS, _COLS, _ROWS, _GROUPS = (LOOPS.index(name) for name in ("chunks", "cols", "rows", "groups"))


def steps_of(problem: TilingProblem, c: Candidates) -> Ints:
    """The number of steps of each candidate."""
    return np.asarray(np.minimum(c.iterations(problem.joined), KEPT).prod(axis=0), np.int64)


@dataclass(frozen=True, slots=True)
class TileSteps:
    """Arrays of [step, candidate]: the size of the tile, its thread, where it is in the loops.

    `place` is [loop, step, candidate] and `counts` [loop, candidate]; `active` where a candidate
    has so many steps.
    """

    active: Bools
    place: Ints
    counts: Ints
    turn: Ints
    rows: Ints
    cols: Ints
    out_blocks: Ints
    in_blocks: Ints
    completes: Bools  # sums, in the last chunk
    starts_group: Bools

    @staticmethod
    def of(problem: TilingProblem, c: Candidates) -> TileSteps:
        """The steps of all candidates."""
        problem = problem.joined
        counts = c.iterations(problem)
        kept = np.minimum(counts, KEPT)
        most = int(steps_of(problem, c).max())
        rest = np.broadcast_to(np.arange(most)[:, None], (most, len(c)))
        places = []
        for loop in range(len(LOOPS)):
            place, rest = rest % kept[loop], rest // kept[loop]
            places.append(np.where((place == KEPT - 1) & (counts[loop] > KEPT), counts[loop] - 1, place))
        place, active = np.stack(places), rest == 0
        return TileSteps(
            active=active,
            place=place,
            counts=counts,
            turn=np.take_along_axis(place, c.over[None, None, :], axis=0)[0] % c.threads,
            rows=np.minimum(c.rows, problem.rows - place[_ROWS] * c.rows),
            cols=np.minimum(c.cols, problem.cols - place[_COLS] * c.cols),
            out_blocks=np.minimum(c.out_blocks, problem.out_blocks - place[_GROUPS] * c.out_blocks),
            in_blocks=np.minimum(c.in_blocks, problem.in_blocks - place[_CHUNKS] * c.in_blocks),
            completes=active & (place[_CHUNKS] == counts[_CHUNKS] - 1),
            starts_group=(place[:_GROUPS] == 0).all(axis=0),
        )

    def __len__(self) -> int:
        return len(self.active)

    @property
    def first_tile(self) -> Bools:
        """Where the tile is the first of its group, in any chunk."""
        return np.asarray((self.place[_COLS:_GROUPS] == 0).all(axis=0))

    @property
    def last(self) -> Bools:
        """Where the step is the last one."""
        return np.asarray(self.active & (self.place == self.counts[:, None] - 1).all(axis=0))

    @property
    def skipped(self) -> Ints:
        """[loop, candidate]: iterations that are not run."""
        return np.maximum(self.counts - KEPT, 0)

    @property
    def long_loops(self) -> list[int]:
        """The loops of which some candidate skips iterations, innermost first."""
        return [int(loop) for loop in np.flatnonzero((self.counts > KEPT).any(axis=1))]

    def repeats(self, loop: int) -> tuple[Bools, Bools]:
        """Where a step is the last one before the repeated iterations, and the last of them."""
        ends = self.active & (self.counts[loop] > KEPT)
        ends &= (self.place[:loop] == self.counts[:loop, None] - 1).all(axis=0)
        place = self.place[loop]
        return ends & (place == KEPT - 2 - REPEATED), ends & (place == KEPT - 2)
