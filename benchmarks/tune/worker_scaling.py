# SPDX-License-Identifier: Apache-2.0
"""How much faster two workers are than one, on this machine and on a Ray cluster of two processors.

The figure must not depend on what else runs on the machine, so it is the smaller of two ratios of
two workers to one, medians of alternating rounds: of the CPU time of the busiest process, and of
the trials under way at a time. The ratio of wall times, which other programs spoil, is given too.
Starting workers does not count.
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from vdla.benchmarks.harness import Row, Section
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler.operators.workloads import workload
from vdla.compiler.tune import Point, TuningTask, VdlaTask, layer_task
from vdla.hardware.config import Config
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.runtime.tune.ray_workers import RayWorkers
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.workers import LocalWorkers, Workers
from vdla.support.progress import ReportStep

_LAYER = "C11"
_POINTS = 40
ROUNDS = 3
SCALING_STEPS = 2 * ROUNDS

Start = Callable[[int], Workers]


def measure_workers(request: SectionRequest) -> Section:
    """`worker_scaling` of processes, and `worker_scaling_ray` of actors, where Ray is installed."""
    scalings = {"local": local_scaling(request.seed, lambda what: request.report(f"processes, {what}"))}
    if find_spec("ray") is None:
        for _ in range(ROUNDS):
            request.report("Ray is not installed")
    else:
        scalings["ray"] = ray_scaling(request.seed, lambda what: request.report(f"Ray, {what}"))
    names = {"local": "worker_scaling", "ray": "worker_scaling_ray"}
    rows = [scaling.row(name) for name, scaling in scalings.items()]
    return Section({names[name]: scaling.figure for name, scaling in scalings.items()}, rows)


@dataclass(frozen=True, slots=True)
class Scaling:
    """Two workers over one: in CPU time of the busiest process, trials under way, wall time."""

    cpu: float
    under_way: float
    wall: float

    @property
    def figure(self) -> float:
        """What two workers gain on a machine with two free processors."""
        return min(self.cpu, self.under_way)

    def row(self, workers: str) -> Row:
        """The row of the table for a kind of workers."""
        return {
            "workers": workers,
            "busiest_process": self.cpu,
            "under_way": self.under_way,
            "wall_time": self.wall,
        }


def local_scaling(seed: int, report: ReportStep) -> Scaling:
    """Of processes of this machine."""
    return _scaling(lambda count: LocalWorkers(ProcessMeasurer(), count), seed, report)


def ray_scaling(seed: int, report: ReportStep) -> Scaling:
    """Of actors of a cluster that is started here."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        return _scaling(lambda count: RayWorkers(ProcessMeasurer(), count=count), seed, report)
    finally:
        ray.shutdown()


@dataclass(frozen=True, slots=True)
class ProcessMeasurer:
    """The simulator; the cost is the number of the process that measured."""

    unit: str = "cycles"
    most_workers: int | None = None

    def missing(self, task: TuningTask) -> str:
        """As `SimMeasurer`."""
        return ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The number of this process."""
        SimMeasurer().measure(task, point)
        return os.getpid()


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round took: CPU time of its busiest process, trials under way, wall time."""

    cpu_s: float
    under_way: float
    wall_s: float


def _scaling(start: Start, seed: int, report: ReportStep) -> Scaling:
    task = layer_task(workload(_LAYER), Config.preset("pynq_z1"))
    points = task.space.sample(np.random.default_rng(seed), _POINTS)
    result = []
    for _ in range(ROUNDS):
        report("rounds")
        one, two = (_round(start(count), task, points) for count in (1, 2))
        result.append((one.cpu_s / two.cpu_s, two.under_way / one.under_way, one.wall_s / two.wall_s))
    cpu, under_way, wall = (round(statistics.median(ratios), 3) for ratios in zip(*result, strict=True))
    return Scaling(cpu, under_way, wall)


def _round(workers: Workers, task: VdlaTask, points: Sequence[Point]) -> _Round:
    """All points, once every worker has measured one."""
    try:
        workers.begin(task)
        processes = {os.getpid()}
        while len(processes) <= workers.count:
            processes |= {int(trial.cost) for trial in _measured(workers, points[: workers.count])}
        before, begun = {process: _cpu_s(process) for process in processes}, time.perf_counter()
        trials = _measured(workers, points)
        wall_s = time.perf_counter() - begun
        cpu_s = max(_cpu_s(process) - before[process] for process in processes)
        return _Round(cpu_s, sum(trial.seconds for trial in trials) / wall_s, wall_s)
    finally:
        workers.close()


def _cpu_s(process: int) -> float:
    """CPU time of a process so far, by Linux."""
    words = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _measured(workers: Workers, points: Sequence[Point]) -> list[Trial]:
    for number, point in enumerate(points):
        workers.submit(number, point)
    return [workers.take()[1] for _ in points]
