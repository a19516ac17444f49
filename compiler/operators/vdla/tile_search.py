# SPDX-License-Identifier: Apache-2.0
"""The search for the tiling with the lowest estimate: even tiles first, then their neighbours.

Even sizes are ranked in closed form, the best of them by a coarse run. From the best one, single
choices are varied as long as the estimate improves: any size, weights kept or not, block by block
or not.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from typing import NamedTuple

import numpy as np

from vdla.compiler.operators.vdla.tile_busiest_unit import busiest_unit
from vdla.compiler.operators.vdla.tile_candidates import Candidates, estimated, fitting, fitting_candidates
from vdla.compiler.operators.vdla.tile_rates import Bools, Floats, steps_of
from vdla.compiler.operators.vdla.tile_timeline import timeline
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.hardware import timing
from vdla.hardware.config import Config

_SIZES = ("in_blocks", "cols", "rows", "out_blocks")
_FACTORS = 2.0 ** (np.arange(-3, 4) / 3)
_FIRST, _MORE = 8, 32  # by each closed form
_ROOM = 1.004  # over the lowest bound of all candidates: less is not worth a longer search
_MOST_ROUNDS = 8
_MOST_STEPS = 400
_TIE = 0.997  # of estimates: the closed form decides
_GAIN = 0.999  # by a step to a neighbour: less is below the accuracy of the estimate
_MOST_OPERATIONS = 1 << 20  # of a program, which compiles in a few seconds
_SHORT_PROGRAM = 4096  # cycles of which a better choice saves less than it costs to find


@lru_cache(maxsize=1024)
def quick_search(config: Config, problem: TilingProblem, threads: int) -> Tiling | None:
    """The even tiling of the lowest closed form, without a run; None if no tile fits."""
    tables = [_promising(config, problem, table, 1) for table in _tables(config, problem, threads)]
    if not tables:
        return None
    promising = Candidates.joined(tables)
    return promising.tiling(int(estimated(config, problem, promising).argmin()))


class ChosenTiling(NamedTuple):
    """A tiling, with its estimated cycles if it was run."""

    tiling: Tiling
    cycles: float | None


@lru_cache(maxsize=1024)
def search(config: Config, problem: TilingProblem, threads: int) -> ChosenTiling | None:
    """The best tiling; None if no tile fits the buffers with that many virtual threads."""
    tables = _tables(config, problem, threads)
    if not tables:
        return None
    least_busy = min(float(busiest_unit(config, problem, table).min()) for table in tables)
    promising = Candidates.joined([_promising(config, problem, table, _FIRST) for table in tables])
    rough = estimated(config, problem, promising)
    if rough.min() < _SHORT_PROGRAM or waits_for_memory(config):
        return ChosenTiling(promising.tiling(int(rough.argmin())), None)
    best = _Best(config, problem)
    best.add(promising)
    if best.cycles > _ROOM * least_busy:
        best.add(Candidates.joined([_promising(config, problem, table, _MORE) for table in tables]))
        for nearby in (_around, _around, *(_MOST_ROUNDS * [_beside])):
            near = nearby(problem, best.tiling).dealt(problem, threads)
            better = best.add(_promising(config, problem, near.take(fitting(config, problem, near)), _MORE))
            if not better and nearby is _beside:
                break
    return ChosenTiling(best.tiling, best.estimate)


def waits_for_memory(config: Config) -> bool:
    """Whether even full bursts leave the read channel idle: the coarse run is wrong there by up to
    half, mostly for small tiles, and the closed form decides.
    """
    busy = timing.outstanding_reads(config) * config.burst_beats * config.dram.beat_cycles
    return busy < config.dram.read_latency + timing.read_delay(config)


def _tables(config: Config, problem: TilingProblem, threads: int) -> list[Candidates]:
    """The candidates that fit, without programs that are too long if there are shorter ones."""
    tables = list(fitting_candidates(config, problem, threads))
    short = [table.take(_loads_and_passes(problem, table) <= _MOST_OPERATIONS) for table in tables]
    return [table for table in short if len(table)] or tables


def _loads_and_passes(problem: TilingProblem, c: Candidates) -> Floats:
    """The approximate number of operations of each candidate's program."""
    return np.asarray(c.iterations(problem).prod(axis=0) * (1.0 + 4 * c.out_blocks) * problem.sections, np.float64)


def _promising(config: Config, problem: TilingProblem, c: Candidates, count: int) -> Candidates:
    """The best candidates by either closed form, in order."""
    chosen = np.zeros(len(c), np.bool_)
    for cycles in (estimated(config, problem, c), busiest_unit(config, problem, c)):
        chosen |= _lowest(cycles, count)
    return c.take(chosen)


def _lowest(cycles: Floats, count: int) -> Bools:
    """A mask of the lowest `count`, the first of equal ones, by partial sorting."""
    if len(cycles) <= count:
        return np.ones(len(cycles), np.bool_)
    most = np.partition(cycles, count - 1)[count - 1]
    chosen: Bools = cycles < most
    chosen[np.flatnonzero(cycles == most)[: count - np.count_nonzero(chosen)]] = True
    return chosen


def _short(problem: TilingProblem, c: Candidates) -> Candidates:
    """The candidates with few steps, or those with the fewest."""
    steps = steps_of(problem, c)
    return c.take(steps <= np.maximum(_MOST_STEPS, steps.min())) if len(c) else c


class _Best:
    """The best of the candidates that were run."""

    def __init__(self, config: Config, problem: TilingProblem) -> None:
        self.config, self.problem = config, problem
        self.cycles = np.inf
        self._known: dict[bytes, float] = {}

    def add(self, candidates: Candidates) -> bool:
        """Run candidates; whether one of them is clearly better."""
        candidates = _short(self.problem, candidates)
        cycles = self._run(candidates)
        least = float(cycles.min(initial=np.inf))
        if not least < _GAIN * self.cycles:
            return False
        near = np.where(cycles <= least / _TIE, estimated(self.config, self.problem, candidates), np.inf)
        best = int(near.argmin())
        self.tiling, self.estimate, self.cycles = candidates.tiling(best), float(cycles[best]), least
        return True

    def _run(self, candidates: Candidates) -> Floats:
        """The cycles of candidates, each run once: neighbourhoods of a search overlap."""
        keys = [row.tobytes() for row in candidates.table()]
        new = np.array([key not in self._known for key in keys], np.bool_)
        cycles = timeline(self.config, self.problem, candidates.take(new))
        self._known.update(zip(compress(keys, new), cycles.tolist(), strict=True))
        return np.array([self._known[key] for key in keys])


def _around(problem: TilingProblem, tiling: Tiling) -> Candidates:
    """All combinations of sizes from half to twice as large, and of the other choices."""
    sizes = []
    for name in _SIZES:
        size, most = getattr(tiling, name), getattr(problem, name)
        sizes.append(np.unique(np.clip(np.round(size * _FACTORS).astype(np.int64), 1, most)))
    return Candidates.grid(sizes, np.array([True, False]), np.array([False, True]))


def _beside(problem: TilingProblem, tiling: Tiling) -> Candidates:
    """Each size from half to twice as large, one at a time."""
    tables = []
    for varied in _SIZES:
        sizes = {name: np.array([getattr(tiling, name)]) for name in _SIZES}
        size, most = getattr(tiling, varied), getattr(problem, varied)
        sizes[varied] = np.arange(max(1, size // 2), min(most, 2 * size) + 1)
        flags = (np.array([tiling.keep_weights]), np.array([tiling.by_blocks]))
        tables.append(Candidates.grid(list(sizes.values()), *flags))
    return Candidates.joined(tables)
