"""The tuner: gains where estimates were wrong, trials of searches, optima, killed runs, workers,
CPUs, GPUs.

`vdla bench tune convergence` runs one section. Its trials are replayed on pools of measured points;
those of `cpu_speedup` are measured, which takes most of an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from vdla.benchmarks.harness import BenchmarkResult, installed_version, receipt
from vdla.benchmarks.tune.bad_estimate import FIRST, measure_bad_estimates
from vdla.benchmarks.tune.convergence import CASES, measure_convergence
from vdla.benchmarks.tune.cpu_speedup import KERNELS, measure_cpu_speedup
from vdla.benchmarks.tune.grid_speedup import CASES as GRID_CASES
from vdla.benchmarks.tune.grid_speedup import measure_grid_speedup
from vdla.benchmarks.tune.optimum import OPTIMA, measure_optima
from vdla.benchmarks.tune.run_sections import KILL_STEPS, SCALING_STEPS, measure_kills, measure_workers
from vdla.benchmarks.tune.section import SectionRequest, TuneSection
from vdla.hardware.config import Config
from vdla.support.errors import Error
from vdla.support.progress import Progress, silent
from vdla.support.suggest import did_you_mean

SECTIONS: Mapping[str, tuple[Callable[[SectionRequest], TuneSection], int]] = {
    "bad_estimate": (measure_bad_estimates, len(FIRST)),
    "convergence": (measure_convergence, 2 * len(CASES)),
    "cpu_speedup": (measure_cpu_speedup, sum(KERNELS.values())),
    "grid_speedup": (measure_grid_speedup, len(GRID_CASES)),
    "kills": (measure_kills, KILL_STEPS),
    "optimum": (measure_optima, OPTIMA),
    "workers": (measure_workers, SCALING_STEPS),
}
"""Each section's function, and the number of steps that it reports."""


class TuneBenchmarkError(Error, ValueError):
    """A section that does not exist."""


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = (), picture: str = "") -> BenchmarkResult:
    """The sections `subjects`, or all; `picture` is the file of the convergence as SVG."""
    for name in subjects:
        if name not in SECTIONS:
            got = f"{name}{did_you_mean(name, SECTIONS)}"
            raise TuneBenchmarkError(f"bench tune: section must be one of {', '.join(SECTIONS)}, got {got}")
    names = list(dict.fromkeys(subjects)) or list(SECTIONS)
    total, done = sum(SECTIONS[name][1] for name in names), count()
    request = SectionRequest(seed, lambda what: progress(what, next(done), total), Path(picture) if picture else None)
    sections = [SECTIONS[name][0](request) for name in names]
    progress("done", total, total)
    figures = {name: value for section in sections for name, value in section.figures.items()}
    rows = [row for section in sections for row in section.rows]
    return BenchmarkResult("tune", figures, rows, _receipt(subjects, seed))


def _receipt(subjects: Sequence[str], seed: int) -> dict[str, Any]:
    command = " ".join(["vdla bench tune", *subjects, f"--seed {seed} --json -"])
    found = receipt(Config.preset("pynq_z1"), [], seed, command)
    libraries = {name: installed_version(name) or "absent" for name in ("xgboost-cpu", "optuna", "nevergrad")}
    return found | {"versions": found["versions"] | libraries}
