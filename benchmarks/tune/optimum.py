# SPDX-License-Identifier: Apache-2.0
"""Optima: small spaces are measured whole; of others, how far the best known is from the bound.

Each space has a log of its own in the cache, so that a killed run resumes. A log is
named by its programs and their cycles: another compiler or simulator begins another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vdla.benchmarks.harness import Figures, Row, Section
from vdla.benchmarks.mapped_layers import MappedLayer, mapped_layers
from vdla.benchmarks.tune.pool import content_name
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler.operators.least_cycles import LeastCycles
from vdla.compiler.tune import VdlaTask
from vdla.compiler.tune.searches import new_search
from vdla.hardware.config import Config
from vdla.runtime.tune.best import SHIPPED, TunedSchedules
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.tune import TuningReport, tune
from vdla.runtime.tune.workers import LocalWorkers, Workers
from vdla.simulator.stats import RunStats
from vdla.simulator.timing import time_program
from vdla.support.cache import user_cache

PRESETS = ("pynq_z1", "ultra96", "zcu104")
MOST_POINTS = 5000
"""Of a space that is measured whole, in some minutes."""
TRIALS = 24
"""Of a larger space that the shipped log does not have, by the lowest estimate."""
NEAR = 0.01
OPTIMA = len(PRESETS) * len(mapped_layers())


@dataclass(frozen=True, slots=True)
class Optimum:
    """A layer on a machine: cycles of the untuned choice and of the best known point, and those
    that no program is below, set by `limited_by`. What the compute unit of the best waits for most
    is its `cause`.

    Of `space` points, `measured` were measured here, and `failed` of those have no program.
    """

    layer: str
    machine: str
    space: int
    measured: int
    failed: int
    untuned: int
    best: int
    least: LeastCycles
    cause: str

    @property
    def gap(self) -> float:
        """The share by which the best known is above the least."""
        return self.least.gap(self.best)

    @property
    def row(self) -> Row:
        """The row of the table."""
        return {
            "layer": self.layer,
            "machine": self.machine,
            "space": self.space,
            "measured": self.measured,
            "least_cycles": self.least.cycles,
            "limited_by": self.least.limited_by,
            "best_cycles": self.best,
            "untuned_cycles": self.untuned,
            "best_over_least": round(1 + self.gap, 4),
            "cause": "" if self.gap <= NEAR else self.cause,
            "untuned_over_best": round(self.untuned / self.best, 4),
        }


def measure_optima(request: SectionRequest) -> Section:
    """Every layer on every preset."""
    optima, known = [], TunedSchedules.of(SHIPPED)
    workers = LocalWorkers(SimMeasurer())
    try:
        for preset in PRESETS:
            for layer in mapped_layers():
                request.report(f"{layer.name} on {preset}")
                optima.append(optimum(layer, Config.preset(preset), known, workers))
    finally:
        workers.close()
    return Section(optimum_figures(optima), [item.row for item in optima])


def optimum(
    layer: MappedLayer, config: Config, known: TunedSchedules, workers: Workers, most: int = MOST_POINTS
) -> Optimum:
    """A layer; all of its points are measured if there are at most `most`."""
    task = layer.task(config)
    untuned = time_program(layer.template(config).program).total_cycles
    trial = known.best(task.key)
    trials: Sequence[Trial] = ()
    if task.space.size <= most:
        trials = _measured(task, workers, "exhaustive", task.space.size).trials
    elif trial is None:
        trials = _measured(task, workers, "estimate", TRIALS).trials
    logged = () if trial is None else (trial,)
    points = [item for item in (*logged, *trials) if item.cost < untuned]
    program = task.build(min(points, key=lambda item: item.cost).point) if points else layer.template(config).program
    return Optimum(
        layer=layer.name,
        machine=config.name,
        space=task.space.size,
        measured=len(trials),
        failed=sum(not item.ok for item in trials),
        untuned=untuned,
        best=round(min([untuned, *(item.cost for item in points)])),
        least=layer.least(config),
        cause=_longest_wait(time_program(program)),
    )


def _longest_wait(stats: RunStats) -> str:
    """What the compute unit waits for most, beside its work."""
    waits = {name: cycles for name, cycles in stats.counters["compute"].items() if name != "busy"}
    return max(waits, key=waits.__getitem__)


def _measured(task: VdlaTask, workers: Workers, search: str, count: int) -> TuningReport:
    """The first points of a search, those of the task's log not again."""
    run = TaskRun(task.key, task.name, task.config.name, task.space.name, search, seed=0)
    path = user_cache("tune") / f"{content_name(task, np.arange(task.space.size))}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with TuningLog(path) as log:
        return tune(task, new_search(search, task, 0), run, workers, trials=count, log=log)


def optimum_figures(optima: Sequence[Optimum]) -> Figures:
    """The spaces measured whole, how far the worst untuned choice is from its optimum, and the
    share of layers whose best is within NEAR of the least cycles that any program takes.
    """
    whole = [item for item in optima if item.measured == item.space]
    return {
        "optima": len(whole),
        "near_least": round(sum(item.gap <= NEAR for item in optima) / len(optima), 4),
        "below_least": sum(item.gap < 0 for item in optima),
        "optimum_failed": sum(item.failed for item in optima),
        "untuned_over_optimum": round(max((item.untuned / item.best for item in whole), default=1.0), 4),
    }
