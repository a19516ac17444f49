# SPDX-License-Identifier: Apache-2.0
"""Tuned over default tiles of kernels on an OpenCL device, and how the cost model ranks them.

`grid_rank` is the mean of the rank correlations between modelled and measured costs of the trials.
The model is of a GPU: on PoCL, which runs kernels on a CPU, it says how far that carries over.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from vdla.benchmarks.harness import Figures, Row, Section, geomean
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler import ir, operators, te
from vdla.compiler.tune.grid import modelled_cost
from vdla.runtime.grid.opencl_context import OpenClDeviceError
from vdla.runtime.grid.opencl_devices import open_opencl
from vdla.runtime.tune.grid_runs import TunedGrid, tune_grid
from vdla.runtime.tune.trial import Trial

TRIALS = 48
_SEARCH = "genetic"  # samples widely, so that ranks are of good and bad points
_Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpeedupCase:
    """An operator on shapes of float32."""

    operator: Callable[..., te.Tensor]
    shapes: tuple[_Shape, ...]
    pads: int = 0

    def function(self, name: str) -> ir.Function:
        """The unscheduled function."""
        inputs = [te.placeholder(shape, "float32", f"x{n}") for n, shape in enumerate(self.shapes)]
        options = {"pads": self.pads} if self.pads else {}
        return te.create_function(inputs, [self.operator(*inputs, name="y", **options)], name)


CASES: Mapping[str, SpeedupCase] = {
    "product": SpeedupCase(operators.matmul, ((512, 512), (512, 512))),
    "conv2d": SpeedupCase(operators.conv2d, ((1, 64, 28, 28), (64, 64, 3, 3)), pads=1),
    "softmax": SpeedupCase(operators.softmax, ((1024, 256),)),
}


def measure_grid_speedup(request: SectionRequest) -> Section:
    """Tune every case, if there is a device; with a step for each, of minutes."""
    try:
        device = open_opencl()
    except OpenClDeviceError as error:
        for name in CASES:
            request.report(f"{name}: {error}")
        return Section({}, [])
    rows, tuned_grids = [], []
    for name, case in CASES.items():
        request.report(f"{name} on {device.name}")
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "grid.jsonl"
            tuned = tune_grid(case.function(name), log, trials=TRIALS, search=_SEARCH, seed=request.seed)
        correlation = model_rank(tuned)
        tuned_grids.append((tuned, correlation))
        rows.append(_row(name, tuned, correlation))
    return Section(grid_figures(tuned_grids), rows)


def model_rank(tuned: TunedGrid) -> float:
    """The rank correlation of modelled costs with the measured ones of the trials."""
    trials = [trial for trial in tuned.report.trials if trial.ok]
    return rank_correlation([_modelled(tuned, trial) for trial in trials], [trial.cost for trial in trials])


def _modelled(tuned: TunedGrid, trial: Trial) -> float:
    return modelled_cost(tuned.task.build(trial.point), tuned.task.limits)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: that of the ranks, equal values sharing the mean of theirs; 0 if either is
    constant."""
    ranks = [_ranks(np.asarray(values)) for values in (a, b)]
    if min(float(np.std(rank)) for rank in ranks) == 0:
        return 0.0
    first, second = ranks
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rank of each value."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])


def grid_figures(tuned_grids: Sequence[tuple[TunedGrid, float]]) -> Figures:
    """The geometric mean and the least of the speedups, failed trials, the model's ranks."""
    speedups = [tuned.speedup for tuned, _ in tuned_grids]
    return {
        "grid_speedup": round(geomean(speedups), 4),
        "grid_speedup_worst": round(min(speedups), 4),
        "grid_failed": sum(tuned.report.failed for tuned, _ in tuned_grids),
        "grid_rank": round(mean(correlation for _, correlation in tuned_grids), 4),
    }


def _row(name: str, tuned: TunedGrid, correlation: float) -> Row:
    changed = ", ".join(f"{knob} {values}" for knob, values in tuned.task.changes(tuned.point).items())
    return {
        "function": name,
        "points": tuned.task.space.size,
        "trials": len(tuned.report.trials),
        "failed": tuned.report.failed,
        "speedup": round(tuned.speedup, 4),
        "rank": round(correlation, 4),
        "changed": changed or "nothing",
    }
