# SPDX-License-Identifier: Apache-2.0
"""The estimate of the best candidates: a coarse run of load, compute and store, tile by tile.

All candidates run at once, in columns. In each iteration of the tile loops the load unit fills a
window and streams weights through the one read channel, compute follows as data arrive, and the
last chunk streams results out through the write channel. Times are cycles from the start of the
program; of a long loop, only some iterations are run (`tile_rates.py`).

Candidates are sorted so that the active ones are a leading slice; time-independent data are
computed for all steps before the run (`tile_run_plan.py`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tile_rates import REPEATED, Floats, TileRates, TileSteps, steps_of
from vdla.compiler.operators.vdla.tile_run_plan import REMEMBERED, RunPlan
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, Tiling, TilingProblem
from vdla.hardware import timing
from vdla.hardware.config import Config

_CHUNKS = LOOPS.index("chunks")


def timeline(config: Config, problem: TilingProblem, candidates: Candidates) -> Floats:
    """Cycles of each candidate, float64[n]."""
    if not len(candidates):
        return np.zeros(0)
    order = np.argsort(-steps_of(problem, candidates), kind="stable")
    candidates = candidates.take(order)
    steps = TileSteps.of(problem, candidates)
    rates = TileRates.of(config, problem, candidates, steps)
    run = _Run(rates, RunPlan.of(problem, rates, candidates, steps), candidates, steps)
    for index in range(len(steps)):
        run.iterate(index)
    cycles = np.zeros(len(candidates))
    cycles[order] = run.stored
    return cycles


@lru_cache(maxsize=1024)
def estimate(config: Config, problem: TilingProblem, tiling: Tiling) -> float:
    """An estimate of the cycles of the operator, within a few per cent of the simulator's."""
    return float(timeline(config, problem, Candidates.of(tiling))[0])


class _Run:
    """The state of the machine for each candidate.

    The state of virtual threads is flat, [thread * n + candidate], like the plan's indices.
    """

    def __init__(self, rates: TileRates, plan: RunPlan, candidates: Candidates, steps: TileSteps) -> None:
        count, threads = len(candidates), int(candidates.threads.max())
        self.rates, self.plan, self.steps = rates, plan, steps
        self.channel = self._start(count)  # when all reads requested so far have arrived
        self.computed, self.written, self.stored = (np.zeros(count) for _ in range(3))
        self.window_free = np.tile(self.channel, threads)  # for the first part of the next window
        self.window_read = np.tile(self.channel, threads)
        self.first_stored, self.last_stored = (np.zeros(threads * count) for _ in range(2))
        # The last iterations' computations; initially the start of the run.
        self.began, self.ended = (np.tile(self.channel, REMEMBERED + 1) for _ in range(2))
        self.before = np.zeros((len(LOOPS), 3, count))  # the times before the repeated iterations of each loop

    def _start(self, count: int) -> Floats:
        """The start of the first load; negative if another operator hides it."""
        rates = self.rates
        if rates.chained:
            return np.asarray(-(rates.read_latency + rates.window[0] + rates.weights[0]))
        return np.full(count, float(rates.read_latency + timing.DISPATCH_DELAY + timing.COMMAND_DELAY))

    def iterate(self, index: int) -> None:
        """Run one step of all active candidates."""
        plan = self.plan
        active = slice(plan.active[index])
        copy = plan.copy[index][active]
        emits = plan.emits[index] and plan.completes[index][active]
        began, window = self._load_window(index, active)
        weights = plan.weights[index][active]
        first = self._weights_arrive(index, active, window)
        last = first + plan.later_weights[index][active]
        last += plan.fetched[index][active]
        early = window - began
        early += weights
        early *= plan.early_share[index][active]
        if plan.in_strips:
            early += (window - began) * plan.early_strip[index][active]
        start = np.maximum(self.computed[active], first - early)
        np.maximum(start, emits * self.first_stored[copy], out=start)
        end = start + plan.blocks[index][active]
        np.maximum(end, first + plan.after_first[index][active], out=end)
        np.maximum(end, last + plan.after_last[index][active], out=end)
        cycles = plan.first_results[index][active]
        np.maximum(end, emits * self.last_stored[copy] + cycles, out=end)
        if plan.emits[index]:
            self._store(index, active, start + cycles, end)
        np.maximum(self.channel[active], last, out=self.channel[active])
        self.computed[active] = end
        read = end + self.rates.depth
        self.window_read[plan.turn[index][active]] = read
        self.window_free[plan.turn[index][active]] = read - plan.lead[index][active]
        now = index % REMEMBERED * len(self.channel)
        self.began[now : now + len(end)], self.ended[now : now + len(end)] = start, end
        for loop in plan.repeats[index]:
            self._repeat(index, loop)

    def _load_window(self, index: int, active: slice) -> tuple[Floats, Floats]:
        """The times at which the window begins to arrive, and at which it is complete."""
        plan, channel = self.plan, self.channel[active]
        # The compute queue has a limited depth.
        computing = plan.dispatched_in[index][active]
        ready = self.began[computing]
        ready += plan.dispatched_at[index][active] * (self.ended[computing] - ready)
        np.maximum(ready, self.window_free[plan.turn[index][active]], out=ready)
        np.maximum(ready, plan.lanes_wait[index][active] * self.computed[active], out=ready)
        if plan.pads[index]:  # padding is written after the end of the previous load
            padding = plan.padding[index][active]
            np.maximum(ready, channel, out=ready, where=padding > 0)
            ready += padding
        ready += self.rates.read_latency
        began, cycles = np.maximum(channel, ready), plan.window[index][active]
        arrived = began + cycles
        if plan.in_strips:
            read = self.window_read[plan.turn[index][active]] + self.rates.read_latency
            np.maximum(arrived, read + cycles * plan.late_share[index][active], out=arrived)
        return began, arrived

    def _weights_arrive(self, index: int, active: slice, window: Floats) -> Floats:
        """The time at which the window and the first weights are in their buffers."""
        plan = self.plan
        kept = plan.waits[index][active] * self.computed[active]
        free = np.where(plan.keeps[active], kept, self.window_free[plan.turn[index][active]])
        free += self.rates.read_latency
        weights = plan.weights[index][active]
        np.maximum(free, window, out=free)
        return np.asarray(np.where(weights > 0, free, window) + weights)

    def _store(self, index: int, active: slice, first: Floats, end: Floats) -> None:
        """Store a tile; the sums of its first output block are complete at `first`."""
        plan, rates = self.plan, self.rates
        emits, one = plan.completes[index][active], plan.last_store[index][active]
        begin = np.maximum(self.written[active], first + rates.depth)
        done = np.maximum(begin + plan.all_stored[index][active], end + rates.depth + one)
        np.copyto(self.written[active], done, where=emits)
        begin += one
        begin += rates.write_latency
        done += rates.write_latency
        np.copyto(self.stored[active], done, where=emits)
        copy = plan.copy[index][active]
        for held, when in ((self.first_stored, begin), (self.last_stored, done)):
            held[copy] = np.where(emits, when, held[copy])

    def _repeat(self, index: int, loop: int) -> None:
        """After the repeated iterations of a loop, advance by the time of the skipped ones."""
        before, after = self.plan.before[loop][index], self.plan.after[loop][index]
        now = np.stack([self.computed, self.channel, self.written if loop != _CHUNKS else self.computed])
        np.copyto(self.before[loop], now, where=before)
        if after.any():
            cycles = (now - self.before[loop]).max(axis=0) / REPEATED
            self._pass(np.where(after, self.steps.skipped[loop] * cycles, 0.0))

    def _pass(self, cycles: Floats) -> None:
        """Advance all times by these cycles."""
        for times in (self.channel, self.computed, self.written, self.stored):
            times += cycles
        windows = self.window_free, self.window_read
        for copies in (*windows, self.first_stored, self.last_stored, self.began, self.ended):
            copies.reshape(-1, len(cycles))[:] += cycles
