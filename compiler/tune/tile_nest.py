# SPDX-License-Identifier: Apache-2.0
"""The loop nest of tiled operators in columns: what each loop level covers, touches and executes.

Sizes are those of the first iteration of all loops outside, which is a whole tile. The test of
features reads the same from scheduled nests, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, TilingProblem

Floats = NDArray[np.float64]

LEVELS = ("nest", "section", "group", "batch", "row", "tile", "chunk", "block", "line", "pixel")
"""Where a size is taken: in the whole nest, or in one iteration of a loop, outermost first.

The loops are over sections, groups of output blocks, batches, rows of tiles, tiles of a row, chunks
of input blocks; inside a tile, over its output blocks, rows and columns of results.
"""

OPERANDS = ("window", "weights", "sums")
"""What the core intrinsic reads and writes."""


@dataclass(frozen=True, slots=True)
class _Coverage:
    """Parts of the operator inside one iteration of a loop."""

    sections: Floats
    batches: Floats
    out_blocks: Floats
    in_blocks: Floats
    rows: Floats
    cols: Floats


@dataclass(frozen=True)
class TileNest:
    """The nests of candidates, in entries of the buffers and steps of the core intrinsic."""

    problem: TilingProblem
    candidates: Candidates

    @cached_property
    def extents(self) -> dict[str, Floats]:
        """The iterations of each loop; those of the one with virtual threads are dealt to them."""
        p, c = self.problem, self.candidates
        tiles = c.iterations(p).astype(np.float64)
        at = np.arange(len(c))
        tiles[c.over, at] = -(-tiles[c.over, at] // c.threads)
        named = dict(zip(LOOPS, tiles, strict=True))
        inner = {"blocks": c.out_blocks, "lines": c.rows, "pixels": c.cols, "inputs": c.in_blocks}
        fixed = {"sections": p.sections, "taps": p.taps * p.phases}
        named |= {name: np.asarray(column, np.float64) for name, column in inner.items()}
        return named | {name: self._all(size) for name, size in fixed.items()}

    def last(self, name: str) -> Floats:
        """A size of the last tile: what the whole ones before it leave."""
        whole, tile = getattr(self.problem, name), getattr(self.candidates, name)
        return np.asarray(whole - (-(-whole // tile) - 1) * tile, np.float64)

    def _all(self, size: int) -> Floats:
        """The same size for every candidate."""
        return np.full(len(self.candidates), float(size))

    def _coverage(self, level: str) -> _Coverage:
        p, c, one = self.problem, self.candidates, self._all(1)
        depth = LEVELS.index(level)

        def size(whole: int, tile: NDArray[Any], split: str, last: str = "") -> Floats:
            """All of an extent, a tile of it inside `split`, one inside `last`."""
            if depth < LEVELS.index(split):
                return self._all(whole)
            return one if last and depth >= LEVELS.index(last) else np.asarray(tile, np.float64)

        return _Coverage(
            sections=size(p.sections, one, "section"),
            batches=size(p.batches, one, "batch"),
            out_blocks=size(p.out_blocks, c.out_blocks, "group", "block"),
            in_blocks=size(p.in_blocks, c.in_blocks, "chunk"),
            rows=size(p.rows, c.rows, "row", "line"),
            cols=size(p.cols, c.cols, "tile", "pixel"),
        )

    def touched(self, operand: str, level: str) -> Floats:
        """Entries in the box that an operand's accesses span in one iteration of a level."""
        p, inside = self.problem, self._coverage(level)
        match operand:
            case "window":
                blocks = p.window_blocks(inside.out_blocks, inside.in_blocks)
                return np.asarray(inside.sections * inside.batches * blocks * p.window(inside.rows, inside.cols))
            case "weights":
                return inside.sections * inside.out_blocks * inside.in_blocks * p.weights
            case _:
                results = p.results(inside.rows, inside.cols) * p.sums
                return np.asarray(inside.sections * inside.batches * inside.out_blocks * results)

    def steps(self, level: str) -> Floats:
        """Steps of the core intrinsic in one iteration of a level."""
        p, inside = self.problem, self._coverage(level)
        results = p.results(inside.rows, inside.cols) * inside.out_blocks * inside.batches * inside.sections
        return np.asarray(results * inside.in_blocks * p.taps)

    def executions(self, level: str) -> Floats:
        """How often a level is executed: the product of the loops down to it, uneven ends whole."""
        e, threads = self.extents, self.candidates.threads
        loops = ("sections", "groups", "batches", "rows", "cols", "chunks", "blocks", "lines", "pixels")
        counts = self._all(1)
        for name in loops[: LEVELS.index(level)]:
            counts = counts * e[name]
            if name in LOOPS:
                counts = counts * np.where(self.candidates.over == LOOPS.index(name), threads, 1)
        return np.asarray(counts)
