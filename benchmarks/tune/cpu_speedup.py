# SPDX-License-Identifier: Apache-2.0
"""Tuned over default schedules of CPU kernels, on one thread.

The kernels are those of three float32 networks at batch 1 with most multiply-adds, as the compiled
networks run them: images in blocks, element-wise operators fused. The speedup of a schedule that
`confirmed` takes is measured once more, in a third process; where the default schedule stays, it
is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vdla.benchmarks.harness import Figures, Row, Section, geomean
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler.tune.searches import DEFAULT_SEARCH, new_search
from vdla.networks.registry import network
from vdla.runtime.tune.confirm import AGAIN, MakeWorkers, confirmed, costs_of, one_process
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.kernel_runs import NetworkKernel
from vdla.runtime.tune.log import TaskRun
from vdla.runtime.tune.network_kernels import network_kernels
from vdla.runtime.tune.tune import TuningReport, tune

KERNELS: Mapping[str, int] = {"mobilenet_v2": 7, "resnet50": 7, "vit_small": 6}
"""How many kernels of each network."""
TRIALS = 200
QUICK = CpuMeasurer()


@dataclass(frozen=True, slots=True)
class KernelSpeedup:
    """A tuned kernel: its speedup over the default schedule, and how its point differs."""

    kernel: NetworkKernel
    speedup: float
    changed: Mapping[str, str]
    report: TuningReport

    @property
    def row(self) -> Row:
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


def largest_kernels(name: str, count: int, seed: int = 0, **parameters: object) -> list[NetworkKernel]:
    """The `count` kernels of a network of the benchmarks with most multiply-adds over all uses.

    `parameters` are those of the network.
    """
    kernels = network_kernels(network(name).build(seed=seed, **parameters))[:count]
    return [replace(kernel, task=replace(kernel.task, name=f"{name} {kernel.task.name}")) for kernel in kernels]


def measure_cpu_speedup(request: SectionRequest) -> Section:
    """Tune every kernel; with a step for each, of minutes."""
    result = []
    for name, count in KERNELS.items():
        for kernel in largest_kernels(name, count, request.seed):
            request.report(kernel.task.name)
            result.append(kernel_speedup(kernel, request.seed))
    return Section(speedup_figures(result), [speedup.row for speedup in result])


def kernel_speedup(
    kernel: NetworkKernel,
    seed: int = 0,
    trials: int = TRIALS,
    quick: CpuMeasurer = QUICK,
    fresh: CpuMeasurer = AGAIN,
    make_workers: MakeWorkers = one_process,
) -> KernelSpeedup:
    """Tune a kernel; both schedules are measured afresh in a process of their own."""
    task = kernel.task
    run = TaskRun(task.key, task.name, task.target.cpu, task.space.name, DEFAULT_SEARCH, seed)
    workers = make_workers(task, quick)
    try:
        report = tune(task, new_search(DEFAULT_SEARCH, task, seed), run, workers, trials=trials, first=task.default)
    finally:
        workers.close()
    point = confirmed(task, report.trials, fresh, make_workers).point
    if point == task.default:
        return KernelSpeedup(kernel, 1.0, {}, report)
    tuned, default = costs_of(task, [point, task.default], fresh, make_workers)
    return KernelSpeedup(kernel, default / tuned, task.changes(point), report)


def speedup_figures(speedups: Sequence[KernelSpeedup]) -> Figures:
    """The geometric mean and the least of the speedups, and failed trials."""
    ratios = [speedup.speedup for speedup in speedups]
    return {
        "cpu_speedup": round(geomean(ratios), 4),
        "cpu_speedup_worst": round(min(ratios), 4),
        "cpu_failed": sum(speedup.report.failed for speedup in speedups),
    }
