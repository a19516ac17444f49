# SPDX-License-Identifier: Apache-2.0
"""The tuner: gains where estimates were wrong, trials of searches, optima, killed runs, workers,
CPUs, GPUs.

`vdla bench tune convergence` runs one section. Its trials are replayed on pools of measured points;
those of `cpu_speedup` are measured, which takes most of an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vdla.benchmarks.harness import BenchmarkResult, Section, joined, receipt, subjects_of
from vdla.benchmarks.tune.bad_estimate import FIRST, measure_bad_estimates
from vdla.benchmarks.tune.convergence import CASES, measure_convergence
from vdla.benchmarks.tune.cpu_speedup import KERNELS, measure_cpu_speedup
from vdla.benchmarks.tune.grid_speedup import CASES as GRID_CASES
from vdla.benchmarks.tune.grid_speedup import measure_grid_speedup
from vdla.benchmarks.tune.kills import KILL_STEPS, measure_kills
from vdla.benchmarks.tune.optimum import OPTIMA, measure_optima
from vdla.benchmarks.tune.section import SectionRequest
from vdla.benchmarks.tune.worker_scaling import SCALING_STEPS, measure_workers
from vdla.hardware.config import Config
from vdla.support.progress import Progress, numbered, silent

SECTIONS: Mapping[str, tuple[Callable[[SectionRequest], Section], int]] = {
    "bad_estimate": (measure_bad_estimates, len(FIRST)),
    "convergence": (measure_convergence, 2 * len(CASES)),
    "cpu_speedup": (measure_cpu_speedup, sum(KERNELS.values())),
    "grid_speedup": (measure_grid_speedup, len(GRID_CASES)),
    "kills": (measure_kills, KILL_STEPS),
    "optimum": (measure_optima, OPTIMA),
    "workers": (measure_workers, SCALING_STEPS),
}
"""Each section's function, and the number of steps that it reports."""


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = (), picture: str = "") -> BenchmarkResult:
    """The sections `subjects`, or all; `picture` is the file of the convergence as SVG."""
    names = subjects_of("tune", "section", subjects, SECTIONS)
    step = numbered(progress, sum(SECTIONS[name][1] for name in names))
    request = SectionRequest(seed, step, Path(picture) if picture else None)
    measured = joined([SECTIONS[name][0](request) for name in names])
    step("done")
    command = " ".join(["vdla bench tune", *subjects, f"--seed {seed} --json -"])
    made = receipt(Config.preset("pynq_z1"), [], seed, command, ["xgboost-cpu", "optuna", "nevergrad"])
    return BenchmarkResult("tune", measured.figures, measured.rows, made)
