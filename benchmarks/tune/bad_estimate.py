# SPDX-License-Identifier: Apache-2.0
"""Layers whose first estimate was wrong: what 100 trials gain over the tiles that it chose.

The reference is compiled and timed now, with the tiles that templates chose when they had the
closed form alone and read every image whole. The untuned choice is today's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from vdla.benchmarks.harness import Figures, Row, Section, geomean
from vdla.benchmarks.tune.convergence import Case
from vdla.benchmarks.tune.pool import BATCH, simulated_cost
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler.operators.workloads import workload
from vdla.compiler.templates import Tiling
from vdla.compiler.tune import VdlaTask, layer_task
from vdla.compiler.tune.searches import DEFAULT_SEARCH, new_search
from vdla.compiler.tune.vdla_forms import TemplateSource
from vdla.simulator.timing import time_program

TRIALS = 100


def _tiling(rows: int, cols: int, out_blocks: int, in_blocks: int, *, kept: bool, over: str) -> Tiling:
    """With two virtual threads."""
    return Tiling(
        rows=rows,
        cols=cols,
        out_blocks=out_blocks,
        in_blocks=in_blocks,
        keep_weights=kept,
        threads=2,
        threads_over=over,
    )


FIRST: Mapping[Case, Tiling] = {
    Case("C5", raw=True): _tiling(1, 28, 8, 2, kept=False, over="chunks"),
    Case("C11", raw=True): _tiling(7, 7, 8, 4, kept=True, over="chunks"),
    Case("C8", slow=True): _tiling(14, 7, 16, 2, kept=True, over="chunks"),
    Case("D2"): _tiling(14, 14, 1, 1, kept=True, over="cols"),
    Case("D8"): _tiling(7, 7, 2, 1, kept=False, over="groups"),
    Case("C5", preset="zcu104"): _tiling(14, 4, 4, 2, kept=True, over="cols"),
}
"""The first choice of each layer."""


@dataclass(frozen=True, slots=True)
class EstimateRun:
    """Cycles of a layer: of the first choice, of the untuned one and of the best trial."""

    task: VdlaTask
    first: int
    untuned: int
    best: float
    failed: int

    @property
    def row(self) -> Row:
        """The row of the table."""
        return {
            "layer": self.task.name,
            "machine": self.task.config.name,
            "space": self.task.space.size,
            "first_cycles": self.first,
            "untuned_cycles": self.untuned,
            "best_cycles": round(self.best),
            "gain": round(self.first / self.best, 4),
            "untuned_over_best": round(self.untuned / self.best, 4),
            "failed": self.failed,
        }


def measure_bad_estimates(request: SectionRequest) -> Section:
    """Every layer with the default search."""
    runs = []
    for case, tiling in FIRST.items():
        request.report(f"{case.layer} on {case.config.name}")
        runs.append(estimate_run(case, tiling, request.seed))
    return Section(estimate_figures(runs), [run.row for run in runs])


def estimate_run(case: Case, tiling: Tiling, seed: int, trials: int = TRIALS) -> EstimateRun:
    """The three programs of a layer."""
    task = layer_task(workload(case.layer), case.config, raw=case.raw)
    source = task.source
    assert isinstance(source, TemplateSource)  # of a layer
    whole = {"packing": "channels"} if workload(case.layer).operator == "conv2d" else {}
    first = source.template(task.config, **source.options, **whole, tiling=tiling)
    untuned = source.template(task.config, **source.options)
    costs = list(_costs(task, seed, trials))
    return EstimateRun(
        task=task,
        first=time_program(first.program).total_cycles,
        untuned=time_program(untuned.program).total_cycles,
        best=min(costs),
        failed=costs.count(inf),
    )


def _costs(task: VdlaTask, seed: int, trials: int) -> Iterator[float]:
    """The costs of the default search's trials, proposed one batch ahead."""
    search = new_search(DEFAULT_SEARCH, task, seed)
    first, *sizes = [min(BATCH, trials - at) for at in range(0, trials, BATCH)]
    waiting = deque([search.propose(first)])
    for size in [*sizes, 0]:
        points = waiting.popleft()
        if size:
            waiting.append(search.propose(size))
        costs = [simulated_cost(task, point) for point in points]
        search.tell(points, costs)
        yield from costs


def estimate_figures(runs: Sequence[EstimateRun]) -> Figures:
    """The geometric mean of the gains, and how far the worst untuned choice is from the best."""
    return {
        "bad_estimate_gain": round(geomean([run.first / run.best for run in runs]), 4),
        "bad_estimate_untuned": round(max(run.untuned / run.best for run in runs), 4),
        "bad_estimate_failed": sum(run.failed for run in runs),
    }
