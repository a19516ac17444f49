# SPDX-License-Identifier: Apache-2.0
"""The simulated iterations of the tile loops, and their cost for each unit, in columns over steps
and candidates.

Of a loop with more than `KEPT` iterations, the first ones and the last one are run; the last
`REPEATED` of the first ones represent all skipped iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, TilingProblem, all_weights_fit, lanes_are_replaced
from vdla.hardware import timing
from vdla.hardware.config import Config
from vdla.hardware.isa.formats import instruction_bytes

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KEPT = 6
REPEATED = 2  # the usual number of virtual threads, which alternate

_CHUNKS, _COLS, _ROWS, _GROUPS = (LOOPS.index(name) for name in ("chunks", "cols", "rows", "groups"))


def steps_of(problem: TilingProblem, c: Candidates) -> Ints:
    """The number of steps of each candidate."""
    return np.asarray(np.minimum(c.iterations(problem.joined), KEPT).prod(axis=0), np.int64)


@dataclass(frozen=True, slots=True)
class TileSteps:
    """Arrays of [step, candidate]: the size of the tile, its thread, its position in the loops.

    `place` is [loop, step, candidate] and `counts` [loop, candidate]; `active` marks the steps of a
    candidate.
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
        index = np.broadcast_to(np.arange(most)[:, None], (most, len(c)))
        places = []
        for loop in range(len(LOOPS)):
            place, index = index % kept[loop], index // kept[loop]
            places.append(np.where((place == KEPT - 1) & (counts[loop] > KEPT), counts[loop] - 1, place))
        place, active = np.stack(places), index == 0
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
        """Whether the tile is the first of its group, in any chunk."""
        return np.asarray((self.place[_COLS:_GROUPS] == 0).all(axis=0))

    @property
    def last(self) -> Bools:
        """Whether the step is the last one."""
        return np.asarray(self.active & (self.place == self.counts[:, None] - 1).all(axis=0))

    @property
    def skipped(self) -> Ints:
        """[loop, candidate]: iterations that are not run."""
        return np.maximum(self.counts - KEPT, 0)

    @property
    def long_loops(self) -> list[int]:
        """The loops in which some candidate skips iterations, innermost first."""
        return [int(loop) for loop in np.flatnonzero((self.counts > KEPT).any(axis=1))]

    def repeats(self, loop: int) -> tuple[Bools, Bools]:
        """Whether a step is the last one before the repeated iterations, and whether it is the last
        of them.
        """
        ends = self.active & (self.counts[loop] > KEPT)
        ends &= (self.place[:loop] == self.counts[:loop, None] - 1).all(axis=0)
        place = self.place[loop]
        return ends & (place == KEPT - 2 - REPEATED), ends & (place == KEPT - 2)


@dataclass(frozen=True, slots=True)
class TileRates:
    """Cycles in arrays of [step, candidate]; `weights`, `computation` and `store` are for one
    output block.

    `window` and `padding`: to transfer the data of a window and to write its padding. `weights`: to
    transfer weights, and lanes of the scale. `computation`: the sums of an output block, in `parts`
    passes; `computations` are the instructions of all blocks. `store`: its results. `fetched`: to
    fetch the instructions of the step. `strips`: of the window, and of the results.
    """

    window: Floats
    padding: Ints
    weights: Floats
    computation: Floats
    parts: Ints
    computations: Floats
    store: Floats
    fetched: Floats
    strips: tuple[Ints, Ints]
    read_latency: float
    write_latency: float
    depth: float  # from the last iteration of a computation to its result
    command_depth: int
    all_weights_fit: bool
    lanes_are_replaced: bool
    chained: bool

    @staticmethod
    def of(config: Config, problem: TilingProblem, c: Candidates, steps: TileSteps) -> TileRates:
        """The rates of a machine."""
        latency = config.dram.read_latency + timing.read_delay(config)
        parts, strips = np.where(c.by_blocks, steps.in_blocks, 1), _strips(c, steps)
        loads = _weight_loads(problem, c, steps)
        computations = steps.out_blocks * parts * _pieces_of_tile(problem, steps)
        commands = 1 + computations + steps.out_blocks * (parts * loads + 2 * steps.completes)
        padding = _padding(problem, steps)
        computation = _computation(config, problem, c, steps, strips)
        if problem.through_acc:  # the vector unit loads the windows itself
            through = _window(config, problem, c, steps, padding) / steps.out_blocks
            computation, window = computation + through + latency, np.zeros_like(through)
        else:
            window = _window(config, problem, c, steps, padding)
            window = window + (strips[0] - 1) * (_borders(problem, steps, _COLS) > 0) * latency  # one by one
        return TileRates(
            window=window,
            padding=problem.window_blocks(steps.out_blocks, steps.in_blocks) * padding,
            weights=_weights(config, problem, loads, steps),
            computation=computation,
            parts=parts,
            computations=computations,
            store=_store(config, problem, c, steps, strips[1]),
            fetched=_fetched(commands * instruction_bytes(config) * _per_byte(config), padding, latency),
            strips=strips,
            read_latency=latency + timing.LOAD_SETUP + timing.LOAD_TAIL,
            write_latency=config.dram.write_latency + timing.STORE_TAIL,
            depth=timing.ISSUE_DELAY + timing.compute_depth(config),
            command_depth=config.command_depth,
            all_weights_fit=all_weights_fit(config, problem.joined),
            lanes_are_replaced=lanes_are_replaced(config, problem),
            chained=problem.chained,
        )


def _per_byte(config: Config) -> float:
    """Cycles of the read channel per byte."""
    return config.dram.beat_cycles / config.axi_bytes


def _strips(c: Candidates, steps: TileSteps) -> tuple[Ints, Ints]:
    """The number of strips of a window load, and of a store of results."""
    alone, first = c.threads == 1, np.arange(len(steps))[:, None] == 0
    return np.where(alone | first, c.strips, 1), np.where((alone & steps.completes) | steps.last, c.strips, 1)


def _computation(
    config: Config, problem: TilingProblem, c: Candidates, steps: TileSteps, strips: tuple[Ints, Ints]
) -> Floats:
    """Cycles of the sums of one output block; each operation of the vector unit has a latency."""
    results = problem.results(steps.rows, steps.cols)
    pause = problem.pause or (timing.ISSUE_DELAY if problem.separate else 0)
    waiting = _pieces_of_tile(problem, steps) * np.maximum(*strips) * pause
    # The last turn, or part, of uneven chunks emits its results in a separate pass.
    uneven = (c.over == _CHUNKS) & (steps.counts[_CHUNKS] % c.threads != 0)
    apart = (uneven | c.by_blocks & (problem.in_blocks % c.in_blocks != 0)) & steps.completes
    drained = apart * (results + 2 * timing.compute_depth(config))
    terms = results * steps.in_blocks * problem.taps * problem.kept * problem.step
    after = (results * problem.after + timing.compute_depth(config)) * steps.completes if problem.after else 0
    return np.asarray(terms + waiting + drained + after, np.float64)


def _pieces_of_tile(problem: TilingProblem, steps: TileSteps) -> Floats:
    """The mean number of operations that compute a tile while skipping its padding."""
    tiles = steps.counts[[_ROWS, _COLS]]
    return np.asarray(np.prod(1 + np.array(problem.breaks)[:, None] / tiles, axis=0))


def _weight_loads(problem: TilingProblem, c: Candidates, steps: TileSteps) -> Ints:
    """1 if the weights of a step are not on the chip."""
    return (steps.first_tile | ~c.keep_weights).astype(np.int64) * bool(problem.weights)


def _weights(config: Config, problem: TilingProblem, loads: Ints, steps: TileSteps) -> Floats:
    """Cycles of the weights of one output block, and of its scale lanes."""
    weights = loads * steps.in_blocks * problem.weights * config.wgt_entry_bytes
    lanes = 0 if problem.raw else problem.lanes * config.scl_entry_bytes
    return np.asarray((weights + lanes * (steps.completes & steps.first_tile)) * _per_byte(config), np.float64)


def _padding(problem: TilingProblem, steps: TileSteps) -> Ints:
    """Padding entries of a window: a row or a column at each border of the image."""
    high, wide = _window_size(problem, steps)
    return _borders(problem, steps, _ROWS) * wide + _borders(problem, steps, _COLS) * high


def _borders(problem: TilingProblem, steps: TileSteps, loop: int) -> Ints:
    """The number of padded image borders that a tile touches, along rows or columns."""
    cuts, place = problem.cuts[(_ROWS, _COLS).index(loop)], steps.place[loop]
    return np.asarray((cuts > 0) * (place == 0) + (cuts > 1) * (place == steps.counts[loop] - 1))


def _fetched(cycles: Floats, padding: Ints, latency: float) -> Floats:
    """Cycles by which instruction fetches delay loads: none while a padded load waits."""
    return np.asarray(np.where(padding > 0, np.maximum(0, cycles - padding - latency), cycles), np.float64)


def _window_size(problem: TilingProblem, steps: TileSteps) -> tuple[Ints, Ints]:
    """The rows and columns of a window."""
    high = (steps.rows - 1) * problem.row_step + problem.row_span
    return high, (steps.cols - 1) * problem.col_step + problem.col_span


def _pieces(problem: TilingProblem, c: Candidates, steps: TileSteps, rows: Ints) -> Ints:
    """The transfers of a tile: one for each row if it is narrower than the tensor."""
    return np.where((steps.cols < c.cols) & (c.cols < problem.cols), rows, 1)


def _window(config: Config, problem: TilingProblem, c: Candidates, steps: TileSteps, padding: Ints) -> Floats:
    """Cycles of the windows of all channel blocks: their bytes, or the latencies that requests in
    flight do not hide.
    """
    high, wide = _window_size(problem, steps)
    latency = config.dram.read_latency + timing.read_delay(config)
    windows = problem.window_blocks(steps.out_blocks, steps.in_blocks) * problem.inputs
    entry = problem.unit * problem.entry * config.inp_entry_bytes
    moved = windows * (high * wide - padding) * entry * _per_byte(config)
    whole_rows = (c.cols == problem.cols) & (problem.row_step == problem.col_step)  # follow one another
    runs = np.where(whole_rows, 1, high)
    beats = (high * wide - padding) / runs * entry / config.axi_bytes
    bursts = windows * runs * np.ceil(beats / config.burst_beats)
    loads = windows * _pieces(problem, c, steps, high)
    moved = np.maximum(moved, bursts * latency / timing.outstanding_reads(config))
    moved = moved + loads * instruction_bytes(config) * _per_byte(config)
    one_by_one = loads * np.where(loads > windows, latency, 0)  # they block other commands
    return np.asarray(np.maximum(moved, one_by_one), np.float64)


def _store(config: Config, problem: TilingProblem, c: Candidates, steps: TileSteps, strips: Ints) -> Floats:
    """The results of one output block, through the first port."""
    entry = config.acc_entry_bytes if problem.raw else config.out_entry_bytes
    moved = problem.results(steps.rows, steps.cols) * entry * _per_byte(config) * config.axi_ports
    bursts = np.where(c.cols < problem.cols, steps.rows, strips) * problem.phases
    held = config.dram.write_latency + timing.PORT_DELAY  # of a burst slot, after its last beat
    moved = np.maximum(moved, (moved + bursts * held) / config.dram.outstanding_writes)
    pieces = np.maximum(_pieces(problem, c, steps, steps.rows), strips) * problem.phases
    return np.asarray(moved + bursts * config.dram.burst_gap + pieces * (timing.STORE_SETUP + 1), np.float64)
