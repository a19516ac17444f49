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
        begin = self._start(count)
        # All times, one row for each time of a candidate, so that they advance at once.
        self.times = np.zeros((4 + 4 * threads + 2 * (REMEMBERED + 1), count))
        self.computed, self.channel, self.written, self.stored, *_ = self.times
        self.channel[:] = begin  # when all reads requested so far have arrived
        copies = self.times[4 : 4 + 4 * threads].reshape(4, -1)
        self.window_free, self.window_read, self.first_stored, self.last_stored = copies
        copies[:2] = np.tile(begin, threads)  # `window_free` is for the first part of the next window
        # The last iterations' computations; initially the start of the run.
        remembered = self.times[4 + 4 * threads :].reshape(2, -1)
        self.began, self.ended = remembered
        remembered[:] = np.tile(begin, REMEMBERED + 1)
        self.before = np.zeros((len(LOOPS), 3, count))  # the times before the repeated iterations of each loop

    def _start(self, count: int) -> Floats:
        """The start of the first load; negative if another operator hides it."""
        rates = self.rates
        if rates.chained:
            return np.asarray(-(rates.read_latency + rates.window[0] + rates.weights[0]))
        return np.full(count, float(rates.read_latency + timing.DISPATCH_DELAY + timing.COMMAND_DELAY))

    def iterate(self, index: int) -> None:
        """Run one step of all active candidates.

        Terms that are zero for all of them are left out: the time of a step is that of the calls.
        """
        plan = self.plan
        active = slice(plan.active[index])
        turn, copy, emits = plan.turn[index][active], plan.copy[index][active], plan.emits[index]
        free = self.window_free[turn]
        began, window = self._load_window(index, active, free)
        first = self._weights_arrive(index, active, window, free) if plan.fetches_weights[index] else window
        last = first + plan.later_weights[index][active]
        last += plan.fetched[index][active]
        start = np.maximum(self.computed[active], self._first_read(index, active, window - began, first))
        cycles = plan.first_results[index][active]
        if emits:
            stored_first, stored_last = self.first_stored[copy], self.last_stored[copy]
            if not plan.all_emit[index]:
                completes = plan.completes[index][active]
                stored_first *= completes
                stored_last *= completes
            np.maximum(start, stored_first, out=start)
        end = start + plan.blocks[index][active]
        np.maximum(end, first + plan.after_first[index][active], out=end)
        np.maximum(end, last + plan.after_last[index][active], out=end)
        if emits:
            np.maximum(end, stored_last + cycles, out=end)
            self._store(index, active, start + cycles, end)
        else:
            np.maximum(end, cycles, out=end)
        channel = self.channel[active]
        np.maximum(channel, last, out=channel)
        self.computed[active] = end
        read = end + self.rates.depth
        if plan.in_strips:
            self.window_read[turn] = read
            read -= plan.lead[index][active]
        self.window_free[turn] = read
        now = index % REMEMBERED * len(self.channel)
        self.began[now : now + len(end)], self.ended[now : now + len(end)] = start, end
        for loop in plan.repeats[index]:
            self._repeat(index, loop)

    def _load_window(self, index: int, active: slice, free: Floats) -> tuple[Floats, Floats]:
        """The times at which the window begins to arrive, and at which it is complete."""
        plan, channel = self.plan, self.channel[active]
        if plan.queues[index]:  # the compute queue has a limited depth
            computing = plan.dispatched_in[index][active]
            ready = self.began[computing]
            ready += plan.dispatched_at[index][active] * (self.ended[computing] - ready)
            np.maximum(ready, free, out=ready)
        else:
            ready = np.maximum(self.began[REMEMBERED * len(self.channel) :][active], free)
        if plan.replaces_lanes[index]:
            np.maximum(ready, plan.lanes_wait[index][active] * self.computed[active], out=ready)
        else:
            np.maximum(ready, 0, out=ready)
        if plan.pads[index]:  # padding is written after the end of the previous load
            padding = plan.padding[index][active]
            np.maximum(ready, channel, out=ready, where=padding > 0)
            ready += padding
        ready += self.rates.read_latency
        began, cycles = np.maximum(channel, ready, out=ready), plan.window[index][active]
        arrived = began + cycles
        if plan.in_strips:
            read = self.window_read[plan.turn[index][active]] + self.rates.read_latency
            np.maximum(arrived, read + cycles * plan.late_share[index][active], out=arrived)
        return began, arrived

    def _weights_arrive(self, index: int, active: slice, window: Floats, free: Floats) -> Floats:
        """The time at which the window and the first weights are in their buffers."""
        plan = self.plan
        kept = plan.waits[index][active] * self.computed[active] if plan.replaces_weights[index] else 0.0
        ready = np.where(plan.keeps[active], kept, free)
        ready += self.rates.read_latency
        weights = plan.weights[index][active]
        np.maximum(ready, window, out=ready)
        return np.asarray(np.where(weights > 0, ready, window) + weights)

    def _first_read(self, index: int, active: slice, arriving: Floats, first: Floats) -> Floats:
        """The time at which compute may begin: before all of the window, which takes `arriving`
        cycles, and of the first weights is there, if it reads them in parts.
        """
        plan = self.plan
        early: Floats | None = None
        if plan.begins_early[index]:
            early = (arriving + plan.weights[index][active]) * plan.early_share[index][active]
        if plan.in_strips:
            strips = arriving * plan.early_strip[index][active]
            early = strips if early is None else early + strips
        return first if early is None else first - early

    def _store(self, index: int, active: slice, first: Floats, end: Floats) -> None:
        """Store a tile; the sums of its first output block are complete at `first`."""
        plan, rates = self.plan, self.rates
        copy, one = plan.copy[index][active], plan.last_store[index][active]
        begin = np.maximum(self.written[active], first + rates.depth)
        done = np.maximum(begin + plan.all_stored[index][active], end + rates.depth + one)
        began, ended = begin + one + rates.write_latency, done + rates.write_latency
        if plan.all_emit[index]:
            self.written[active], self.stored[active] = done, ended
        else:
            emits = plan.completes[index][active]
            np.copyto(self.written[active], done, where=emits)
            np.copyto(self.stored[active], ended, where=emits)
            copy, began, ended = copy[emits], began[emits], ended[emits]
        self.first_stored[copy], self.last_stored[copy] = began, ended

    def _repeat(self, index: int, loop: int) -> None:
        """After the repeated iterations of a loop, advance by the time of the skipped ones."""
        now, before = self.times[:3], self.before[loop]
        np.copyto(before, now, where=self.plan.before[loop][index])
        if loop in self.plan.ends_repeats[index]:
            rows = 2 if loop == _CHUNKS else 3  # stores come in the last chunk
            cycles = (now[:rows] - before[:rows]).max(axis=0) / REPEATED
            self.times += np.where(self.plan.after[loop][index], self.steps.skipped[loop] * cycles, 0.0)
