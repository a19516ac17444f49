"""The estimate of the best candidates: a coarse run of load, compute and store, tile by tile.

All candidates run at once, in columns. In each iteration of the tile loops the load unit fills a
window and streams weights through the one read channel, compute follows as data arrive, and the
last chunk streams results out through the write channel. Times are cycles from the start of the
program; of a long loop, only some iterations are run (`tile_steps.py`).
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tile_rates import TileRates
from vdla.compiler.operators.vdla.tile_steps import REPEATED, Bools, Floats, Ints, TileSteps
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, TilingProblem
from vdla.hardware import timing
from vdla.hardware.config import Config

_CHUNKS, _GROUPS = LOOPS.index("chunks"), LOOPS.index("groups")
_REMEMBERED = 4  # iterations of which compute may still hold commands


def timeline(config: Config, problem: TilingProblem, candidates: Candidates) -> Floats:
    """Cycles of each candidate, float64[n]."""
    if not len(candidates):
        return np.zeros(0)
    steps = TileSteps.of(problem, candidates)
    run = _Run(TileRates.of(config, problem, candidates, steps), candidates, steps)
    for index in range(len(steps)):
        run.iterate(index)
    return run.stored + (problem.sections - 1) * run.computed


class _Run:
    """The state of the machine for each candidate."""

    def __init__(self, rates: TileRates, candidates: Candidates, steps: TileSteps) -> None:
        self.rates, self.c, self.steps = rates, candidates, steps
        count, threads = len(candidates), int(candidates.threads.max())
        self.at = np.arange(count)
        self.channel = self._start()  # when the reads requested so far have arrived
        self.computed, self.written, self.stored = (np.zeros(count) for _ in range(3))
        self.window_free = np.tile(self.channel, (threads, 1))
        self.first_stored, self.last_stored = (np.zeros((threads, count)) for _ in range(2))
        self.taken: list[tuple[Floats, Floats, Floats]] = []  # commands of an iteration, its start, its end
        self.before = np.zeros((len(LOOPS), 3, count))  # the times before the repeated iterations of each loop

    def _start(self) -> Floats:
        """When the first load can begin; before 0 where another operator hides it."""
        rates = self.rates
        if rates.chained:
            return np.asarray(-(rates.read_latency + rates.window[0] + rates.weights[0]))
        return np.full(len(self.c), float(rates.read_latency + timing.DISPATCH_DELAY + timing.COMMAND_DELAY))

    def iterate(self, index: int) -> None:
        """One step of all candidates that have so many."""
        rates, steps, active = self.rates, self.steps, self.steps.active[index]
        turn, emits = steps.turn[index], steps.completes[index]
        copy = np.where(self.c.over == _CHUNKS, 0, turn)
        blocks, cycles, weights = steps.out_blocks[index], rates.computation[index], rates.weights[index]
        parts = rates.parts[index]
        began, window = self._load_window(index, turn)
        free = self._weights_free(index, turn) + rates.read_latency
        first = np.where(weights > 0, np.maximum(window, free), window) + weights
        last = first + (blocks - 1) * weights + rates.fetched[index]
        early = np.where(parts > 1, (1 - 1 / parts) * (window - began + weights), 0.0)
        start = np.maximum(self.computed, first - early)
        start = np.maximum(start, emits * self.first_stored[copy, self.at])
        end = np.maximum(start + blocks * cycles, first + (blocks - 1 + 1 / parts) * cycles)
        end = np.maximum(end, last + cycles / parts)
        end = np.maximum(end, emits * self.last_stored[copy, self.at] + cycles)
        self._store(index, start + cycles, end, copy)
        self.channel = np.where(active, np.maximum(self.channel, last), self.channel)
        self.computed = np.where(active, end, self.computed)
        self.window_free[turn, self.at] = np.where(active, end + rates.depth, self.window_free[turn, self.at])
        self.taken = [*self.taken[1 - _REMEMBERED :], (rates.computations[index], start, end)]
        for loop in steps.long_loops:
            self._repeat(index, loop)

    def _dispatched(self) -> Floats:
        """When the load unit gets its next command: the queue of compute holds only so many."""
        found, left = np.full(len(self.c), -np.inf), np.full(len(self.c), float(self.rates.command_depth))
        for count, start, end in reversed(self.taken):
            here = (left > 0) & (left <= count)
            found = np.where(here, start + (1 - left / count) * (end - start), found)
            left = left - count
        return found

    def _load_window(self, index: int, turn: Ints) -> tuple[Floats, Floats]:
        """When the first part of the window begins to arrive, and when all of it has."""
        rates = self.rates
        ready = np.maximum(self._dispatched(), self.window_free[turn, self.at])
        padding = rates.padding[index]  # is written after the load before has ended
        ready = np.where(padding > 0, np.maximum(ready, self.channel) + padding, ready)
        began = np.maximum(self.channel, ready + rates.read_latency)
        return began, began + rates.window[index]

    def _weights_free(self, index: int, turn: Ints) -> Floats:
        """When the place of the first weights of this iteration is free."""
        waits = self.steps.starts_group[index] & (self.c.over != _GROUPS) & (not self.rates.all_weights_fit)
        return np.asarray(np.where(self.c.keep_weights, waits * self.computed, self.window_free[turn, self.at]))

    def _store(self, index: int, first: Floats, end: Floats, copy: Ints) -> None:
        """Store a tile; the sums of its first output block are complete at `first`."""
        rates, one = self.rates, self.rates.store[index]
        begin = np.maximum(self.written, first + rates.depth)
        done = np.maximum(begin + self.steps.out_blocks[index] * one, end + rates.depth + one)
        emits: Bools = self.steps.completes[index]
        self.written = np.where(emits, done, self.written)
        self.stored = np.where(emits, done + rates.write_latency, self.stored)
        for held, when in ((self.first_stored, begin + one), (self.last_stored, done)):
            held[copy, self.at] = np.where(emits, when + rates.write_latency, held[copy, self.at])

    def _repeat(self, index: int, loop: int) -> None:
        """After the repeated iterations of a loop, pass the time of those that are not run."""
        before, after = self.steps.repeats(loop, index)
        if before.any() or after.any():
            now = np.stack([self.computed, self.channel, self.written if loop != _CHUNKS else self.computed])
            self.before[loop] = np.where(before, now, self.before[loop])
            each = (now - self.before[loop]).max(axis=0) / REPEATED
            self._pass(np.where(after, self.steps.skipped[loop] * each, 0.0))

    def _pass(self, cycles: Floats) -> None:
        """Let so many cycles pass."""
        self.channel, self.computed = self.channel + cycles, self.computed + cycles
        self.written, self.stored = self.written + cycles, self.stored + cycles
        for times in (self.window_free, self.first_stored, self.last_stored):
            times += cycles
        self.taken = [(count, start + cycles, end + cycles) for count, start, end in self.taken]
