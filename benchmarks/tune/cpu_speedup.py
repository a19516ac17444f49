"""Tuned over default schedules of CPU kernels, on one thread.

The kernels are those of three float32 networks at batch 1 with most multiply-adds, as the compiled
networks run them: images in blocks, element-wise operators fused. A tuned schedule is taken if it
is faster when the first of a run are measured again, and once more in another process; its speedup
is measured after that. Otherwise the default schedule stays, with a speedup of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vdla.benchmarks.cpu.paired_timing import geomean
from vdla.benchmarks.networks.registry import network
from vdla.benchmarks.tune.section import SectionRequest, TuneSection
from vdla.compiler.tune import CpuTask, Point, TuningTask
from vdla.compiler.tune.searches import DEFAULT_SEARCH, new_search
from vdla.runtime.tune import (
    CpuMeasurer,
    LocalWorkers,
    Measurer,
    TaskRun,
    Trial,
    TuningReport,
    Workers,
    tune,
)
from vdla.runtime.tune.network_kernels import NetworkKernel, network_kernels

KERNELS: Mapping[str, int] = {"mobilenet_v2": 7, "resnet50": 7, "vit_small": 6}
"""How many kernels of each network."""
TRIALS = 200
QUICK = CpuMeasurer()
FRESH = CpuMeasurer(rounds=21, round_s=0.005)
_AGAIN = 3  # schedules of a run that are measured again
_FASTER = 0.99  # of the time of the default schedule: the most for which a tuned one is taken

MakeWorkers = Callable[[TuningTask, Measurer], Workers]


@dataclass(frozen=True, slots=True)
class KernelSpeedup:
    """A tuned kernel: its speedup over the default schedule, and how its point differs."""

    kernel: NetworkKernel
    speedup: float
    changed: Mapping[str, str]
    report: TuningReport

    @property
    def row(self) -> dict[str, Any]:
        """The row of the table."""
        return {
            "kernel": self.kernel.task.name,
            "uses": self.kernel.uses,
            "macs": self.kernel.macs,
            "points": self.kernel.task.space.size,
            "trials": len(self.report.trials),
            "failed": self.report.failed,
            "speedup": round(self.speedup, 4),
            "changed": ", ".join(f"{name} {values}" for name, values in self.changed.items()) or "nothing",
        }


def one_worker(task: TuningTask, measurer: Measurer) -> Workers:
    """A process that a kernel may crash."""
    workers = LocalWorkers(measurer, 1)
    workers.begin(task)
    return workers


def largest_kernels(name: str, count: int, seed: int = 0, **parameters: object) -> list[NetworkKernel]:
    """The `count` kernels of a network of the benchmarks with most multiply-adds over all uses.

    `parameters` are those of the network.
    """
    found = network_kernels(network(name).build(seed=seed, **parameters))[:count]
    return [replace(kernel, task=replace(kernel.task, name=f"{name} {kernel.task.name}")) for kernel in found]


def measure_cpu_speedup(request: SectionRequest) -> TuneSection:
    """Tune every kernel; with a step for each, of minutes."""
    found = []
    for name, count in KERNELS.items():
        for kernel in largest_kernels(name, count, request.seed):
            request.report(kernel.task.name)
            found.append(kernel_speedup(kernel, request.seed))
    return TuneSection(speedup_figures(found), [speedup.row for speedup in found])


def kernel_speedup(
    kernel: NetworkKernel,
    seed: int = 0,
    trials: int = TRIALS,
    quick: CpuMeasurer = QUICK,
    fresh: CpuMeasurer = FRESH,
    make_workers: MakeWorkers = one_worker,
) -> KernelSpeedup:
    """Tune a kernel; both schedules are measured afresh in a process of their own."""
    task = kernel.task
    run = TaskRun(task.key, task.name, task.target.cpu, task.space.name, DEFAULT_SEARCH, seed)
    workers = make_workers(task, quick)
    try:
        report = tune(task, new_search(DEFAULT_SEARCH, task, seed), run, workers, trials=trials)
    finally:
        workers.close()
    point = _taken(task, report.trials, fresh, make_workers)
    if point == task.default:
        return KernelSpeedup(kernel, 1.0, {}, report)
    tuned, default = _costs(task, [point, task.default], fresh, make_workers)
    changed = {name: f"{task.default[name]} to {value}" for name, value in point.items() if value != task.default[name]}
    return KernelSpeedup(kernel, default / tuned, changed, report)


def _taken(task: CpuTask, trials: Sequence[Trial], fresh: CpuMeasurer, make_workers: MakeWorkers) -> Point:
    """The fastest of the first schedules of a run, or the default one."""
    best = sorted((trial for trial in trials if trial.ok), key=lambda trial: trial.cost)
    points = [trial.point for trial in best[:_AGAIN]]
    *costs, default = _costs(task, [*points, task.default], fresh, make_workers)
    cost, point = min(zip(costs, points, strict=True), key=lambda pair: pair[0])
    if cost >= _FASTER * default:
        return task.default
    tuned, default = _costs(task, [point, task.default], fresh, make_workers)
    return point if tuned < _FASTER * default else task.default


def _costs(task: CpuTask, points: Sequence[Point], measurer: CpuMeasurer, make_workers: MakeWorkers) -> list[float]:
    """The costs of points, measured in one process."""
    workers = make_workers(task, measurer)
    try:
        for number, point in enumerate(points):
            workers.submit(number, point)
        found = dict(workers.take() for _ in points)
    finally:
        workers.close()
    return [found[number].cost for number in range(len(points))]


def speedup_figures(speedups: Sequence[KernelSpeedup]) -> dict[str, float]:
    """The geometric mean and the least of the speedups, and failed trials."""
    found = [speedup.speedup for speedup in speedups]
    return {
        "cpu_speedup": round(geomean(found), 4),
        "cpu_speedup_worst": round(min(found), 4),
        "cpu_failed": sum(speedup.report.failed for speedup in speedups),
    }
