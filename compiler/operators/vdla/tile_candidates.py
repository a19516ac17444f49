# SPDX-License-Identifier: Apache-2.0
"""Candidate tilings in columns: which ones fit the buffers, and their estimated cycles.

The estimate counts the time that a decoupled machine cannot hide: the loads of the first tile, the
store of the last, and in between the slower of computing and moving each chunk. It only ranks
candidates; exact cycles come from the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.vdla.tiling_problem import LOOPS, Tiling, TilingProblem, all_lanes_fit, all_weights_fit
from vdla.hardware import timing
from vdla.hardware.config import Config

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_CHUNKS, _GROUPS = LOOPS.index("chunks"), LOOPS.index("groups")
_MOST_AT_ONCE = 1 << 16
_SIZES = ("in_blocks", "cols", "rows", "out_blocks")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tilings in columns of one length; `over` has the index of `threads_over` in LOOPS."""

    rows: Ints
    cols: Ints
    out_blocks: Ints
    in_blocks: Ints
    keep_weights: Bools
    threads: Ints
    over: Ints
    by_blocks: Bools
    strips: Ints

    @staticmethod
    def of(tiling: Tiling) -> Candidates:
        """One tiling."""
        names = (column.name for column in fields(Candidates) if column.name != "over")
        columns = {name: np.array([getattr(tiling, name)]) for name in names}
        return Candidates(**columns, over=np.array([LOOPS.index(tiling.threads_over)]))

    @staticmethod
    def grid(sizes: Sequence[Ints], keep_weights: Bools, by_blocks: Bools) -> Candidates:
        """All combinations, the last size varying fastest, with one thread and without strips.

        `sizes` are those of `in_blocks`, `cols`, `rows` and `out_blocks`.
        """
        names, values = (*_SIZES, "keep_weights", "by_blocks"), (*sizes, keep_weights, by_blocks)
        places = np.indices([len(column) for column in values]).reshape(len(values), -1)
        columns: dict[str, Any] = {
            name: column[place] for name, column, place in zip(names, values, places, strict=True)
        }
        one = np.ones(places.shape[1], np.int64)
        return Candidates(**columns, threads=one, over=np.zeros_like(one), strips=one)

    @staticmethod
    def joined(tables: Sequence[Candidates]) -> Candidates:
        """The candidates of all tables in order."""
        columns = ((f.name, [getattr(table, f.name) for table in tables]) for f in fields(Candidates))
        return Candidates(**{name: np.concatenate(parts) for name, parts in columns})

    def __len__(self) -> int:
        return len(self.rows)

    def table(self) -> Ints:
        """[candidate, column]."""
        return np.stack([np.asarray(getattr(self, field.name), np.int64) for field in fields(self)], axis=1)

    def take(self, chosen: Bools | Ints) -> Candidates:
        """The chosen candidates, by a mask or in an order."""
        return Candidates(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def dealt(self, problem: TilingProblem, threads: int) -> Candidates:
        """The candidates with up to `threads` virtual threads over the innermost loop with
        iterations.
        """
        iterations = self.iterations(problem)
        over = (iterations > 1).argmax(axis=0)  # the first loop if none iterates
        several = np.minimum(threads, iterations[over, np.arange(len(over))])
        return replace(self, threads=several, over=over)

    def tiling(self, index: int) -> Tiling:
        """One candidate."""
        values = {column.name: getattr(self, column.name)[index].item() for column in fields(self)}
        return Tiling(threads_over=LOOPS[values.pop("over")], **values)

    def iterations(self, problem: TilingProblem) -> Ints:
        """[loop, candidate]: the iterations of each of LOOPS."""
        return np.stack(
            [
                _blocks(problem.in_blocks, self.in_blocks),
                _blocks(problem.cols, self.cols),
                _blocks(problem.rows, self.rows),
                np.full(len(self), problem.batches),
                _blocks(problem.out_blocks, self.out_blocks),
            ]
        )


def fitting_candidates(config: Config, problem: TilingProblem, threads: int) -> Iterator[Candidates]:
    """All candidates that fit the buffers, in order, in non-empty tables of limited length.

    Virtual threads share the innermost tile loop with several iterations.
    """
    most = max(config.depths)
    first, *inner_sizes = (_even_sizes(getattr(problem, name), most) for name in _SIZES)
    step = max(1, _MOST_AT_ONCE // (2 * len(inner_sizes[0]) * len(inner_sizes[1]) * len(inner_sizes[2])))
    for start in range(0, len(first), step):
        sizes = (first[start : start + step], *inner_sizes)
        every = Candidates.grid(sizes, np.array([True, False]), np.array([False])).dealt(problem, threads)
        candidates = every.take(fitting(config, problem, every))
        if len(candidates):
            yield candidates


def _even_sizes(extent: int, most: int) -> Ints:
    """Candidate tile sizes up to `most`: the smallest size for each number of tiles."""
    sizes = np.arange(1, min(extent, most) + 1)
    chosen: Ints = sizes[sizes == _blocks(extent, _blocks(extent, sizes))]
    return chosen


def _blocks(extent: int, block: Ints) -> Ints:
    """`blocks` for arrays of sizes."""
    return np.asarray(-(-extent // block), np.int64)


def fitting(config: Config, problem: TilingProblem, c: Candidates) -> Bools:
    """Whether every tile fits its buffer, with a copy for each virtual thread."""
    results = c.out_blocks * problem.results(c.rows, c.cols)
    copies = np.where(c.over != _CHUNKS, c.threads, 1)
    window = problem.window_blocks(c.out_blocks, c.in_blocks) * problem.window(c.rows, c.cols) * c.threads
    weights = c.out_blocks * problem.weights * np.where(c.keep_weights, problem.in_blocks, c.in_blocks)
    weight_copies = np.where(~c.keep_weights | (c.over == _GROUPS), c.threads, 1)
    slot = config.acc_bits // config.out_bits if problem.raw else 1
    lanes = c.out_blocks * problem.lanes * np.where(c.over == _GROUPS, c.threads, 1)
    inp, wgt, acc = problem.resident
    good: Bools = (
        (
            (0 if problem.through_acc or problem.through_wgt else window)
            <= (config.inp_depth // 2 if problem.chained else config.inp_depth) - inp
        )
        & (weights * weight_copies + (window if problem.through_wgt else 0) <= config.wgt_depth - wgt)
        & (results * copies * problem.sums + (window if problem.through_acc else 0) <= config.acc_depth - acc)
        & (results * copies * slot <= config.out_depth)
        & (lanes <= config.scl_depth)
        & ((problem.sections == 1) | (problem.out_blocks % c.out_blocks == 0))  # tiles do not cross sections
        & ~_window_outgrows_tile(problem, c)
    )
    return good


def _window_outgrows_tile(problem: TilingProblem, c: Candidates) -> Bools:
    """Whether the window cannot be allocated for one tile.

    A window that does not depend on the output block is loaded under a condition on the loop over
    groups where threads do not share its iterations evenly, or where it is loaded by blocks for the
    first block of groups of different sizes. It would stay allocated across that loop, for all
    inner tiles at once. With sections it depends on the loop over groups.
    """
    *inner, groups = c.iterations(problem)
    uneven = (c.over == _GROUPS) & (groups % c.threads != 0)
    apart = c.by_blocks & (problem.out_blocks % c.out_blocks != 0)
    if problem.sections > 1:
        return np.asarray(uneven | (c.by_blocks & (not problem.separate)))
    return np.asarray(((uneven & (np.max(inner, axis=0) > 1)) | apart) & (not problem.separate), np.bool_)


def estimated(config: Config, problem: TilingProblem, c: Candidates) -> NDArray[np.float64]:
    """A rough estimate of the cycles of the operator."""
    chunks, cols, rows, _, groups = c.iterations(problem)
    beat = config.dram.beat_cycles
    inp = config.inp_entry_bytes // config.axi_bytes * beat
    wgt = config.wgt_entry_bytes // config.axi_bytes * beat
    out = (
        (config.acc_entry_bytes if problem.raw else config.out_entry_bytes)
        // config.axi_bytes
        * beat
        * config.axi_ports
    )  # all on one port
    fetch = 64 // config.axi_bytes * beat
    tiles = rows * cols
    pieces = (rows + problem.breaks[0]) * (cols + problem.breaks[1]) / tiles
    taps = problem.results(c.rows, c.cols) * c.in_blocks * problem.taps * problem.kept
    compute = c.out_blocks * (taps * problem.step + pieces * problem.pause)
    if problem.after:
        after = problem.results(c.rows, c.cols) * problem.after + timing.compute_depth(config)
        compute = compute + c.out_blocks * after / chunks
    window = problem.window_blocks(c.out_blocks, c.in_blocks) * (problem.window(c.rows, c.cols) * inp + c.rows)
    if problem.through_acc:
        compute = compute + window + config.dram.read_latency
    if problem.cuts != (0, 0):  # a padded load begins after the end of the previous load
        inner = np.maximum(0, rows - 2) * np.maximum(0, cols - 2)
        window = window + config.dram.read_latency * (1 - inner / tiles)
    weights = c.in_blocks * problem.weights * wgt + fetch
    all_weights = c.out_blocks * weights
    chunk = window + np.where(c.keep_weights, 0, all_weights) + c.out_blocks * pieces * fetch
    results = problem.results(c.rows, c.cols) * out
    bursts = np.where(c.cols < problem.cols, c.rows, 1) * problem.phases  # whole rows follow one another
    store = c.out_blocks * (results + bursts) / chunks
    total = problem.batches * groups * tiles * chunks
    first = 0 if problem.chained else window / c.strips + weights + 3 * config.dram.read_latency
    last = results / c.strips + config.dram.write_latency
    alone = first + total * (compute + chunk + store) + last
    # One thread loads a chunk, then computes on it, overlapped with other threads or strips.
    turn = compute + chunk + config.dram.read_latency + timing.ISSUE_DELAY + timing.compute_depth(config)
    several = np.where(c.threads == 1, c.strips, c.threads)
    steady = np.maximum(np.maximum(compute, chunk), np.maximum(store, turn / several))
    # The last turn of uneven chunks cannot fuse its epilogue.
    uneven = (c.over == _CHUNKS) & (chunks % c.threads != 0)
    steady = steady + np.where(uneven, c.out_blocks * problem.results(c.rows, c.cols) / chunks, 0)
    reload = np.where(c.keep_weights, groups * chunks * np.maximum(0, all_weights + window - compute), 0)
    waiting = c.keep_weights & (not all_weights_fit(config, problem))
    bubbles = (groups - 1) * np.where(waiting, all_weights, 0)
    if not (problem.raw or all_lanes_fit(config, problem)):
        bubbles = bubbles + (groups - 1) * config.dram.read_latency
    together = first + total * steady + reload + bubbles + last
    return np.asarray(np.where(several == 1, alone, together), np.float64)
