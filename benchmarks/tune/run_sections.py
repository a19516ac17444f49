"""Sections of the benchmark about tuning runs: kills, and what a second worker gains."""

from __future__ import annotations

from importlib.util import find_spec

from vdla.benchmarks.tune.kills import kills
from vdla.benchmarks.tune.section import SectionRequest, TuneSection
from vdla.benchmarks.tune.worker_scaling import ROUNDS, Scaling, local_scaling, ray_scaling

KILLS = 20
KILL_STEPS = KILLS + 1
SCALING_STEPS = 2 * ROUNDS
_TRIALS = 120


def measure_kills(request: SectionRequest) -> TuneSection:
    """`kills` runs killed at random moments; trials `lost` and `repeated`, which must be 0."""
    found = kills(KILLS, _TRIALS, request.seed, lambda what, done, total: request.report(what))
    return TuneSection(found, [{"run": "killed and resumed", "trials": _TRIALS, **found}])


def measure_workers(request: SectionRequest) -> TuneSection:
    """`worker_scaling` of processes, and `worker_scaling_ray` of actors, where Ray is installed."""
    found = {"local": local_scaling(request.seed, lambda what, done, total: request.report(f"processes, {what}"))}
    if find_spec("ray") is None:
        for _ in range(ROUNDS):
            request.report("Ray is not installed")
    else:
        found["ray"] = ray_scaling(request.seed, lambda what, done, total: request.report(f"Ray, {what}"))
    names = {"local": "worker_scaling", "ray": "worker_scaling_ray"}
    rows = [_row(name, scaling) for name, scaling in found.items()]
    return TuneSection({names[name]: scaling.figure for name, scaling in found.items()}, rows)


def _row(name: str, scaling: Scaling) -> dict[str, float | str]:
    return {
        "workers": name,
        "busiest_process": scaling.cpu,
        "under_way": scaling.under_way,
        "wall_time": scaling.wall,
    }
