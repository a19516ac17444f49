# SPDX-License-Identifier: Apache-2.0
"""Whether a tuned kernel is faster than the default schedule in a new measurement.

The least of many noisy costs is too low. So the first schedules of a run are measured again, in
turns with the default one, in a process of their own, and the fastest of them in another. One is
taken if it is faster both times; otherwise the default schedule stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import inf, isfinite

from vdla.compiler.tune import Point, TuningTask
from vdla.compiler.tune.cost_model import Group
from vdla.compiler.tune.grid import GridTask
from vdla.compiler.tune.searches import new_search
from vdla.runtime.tune.cpu_measurer import CpuMeasurer, KernelTask
from vdla.runtime.tune.log import CONFIRMED, TaskRun, TuningLog
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.tune import Show, TuningReport, logged, tune
from vdla.runtime.tune.workers import TIMEOUT_S, LocalWorkers, Workers

AGAIN = CpuMeasurer(rounds=41, round_s=0.003)
FASTER = 0.99
"""The most that a tuned schedule may take of the default one's time: less is noise."""
_CANDIDATES = 8  # schedules of a run that are measured again: noise decides which trial is the best

ConfirmedTask = KernelTask | GridTask
"""Tasks with a default schedule, whose costs are times."""
MakeWorkers = Callable[[TuningTask, Measurer], Workers]


@dataclass(frozen=True, slots=True)
class ConfirmedSchedule:
    """A point, its seconds and those of the default schedule, of the process that confirmed it."""

    point: Point
    seconds: float
    default_seconds: float

    @property
    def speedup(self) -> float:
        """Over the default schedule; 1 for itself."""
        return self.default_seconds / self.seconds


def one_process(task: TuningTask, measurer: Measurer, timeout_s: float = TIMEOUT_S) -> Workers:
    """A process that a kernel may crash."""
    workers = LocalWorkers(measurer, 1, timeout_s)
    workers.begin(task)
    return workers


def confirmed(
    task: ConfirmedTask,
    trials: Iterable[Trial],
    measurer: Measurer = AGAIN,
    make_workers: MakeWorkers = one_process,
) -> ConfirmedSchedule:
    """The fastest schedule of some trials if it is faster in two processes, or the default one."""
    best = sorted((trial for trial in trials if trial.ok), key=lambda trial: trial.cost)
    points = [trial.point for trial in best if trial.point != task.default][:_CANDIDATES]
    *costs, default = costs_of(task, [*points, task.default], measurer, make_workers)
    cost, point = min(zip(costs, points, strict=True), key=lambda pair: pair[0], default=(inf, task.default))
    if not _is_faster(cost, default):
        return ConfirmedSchedule(task.default, default, default)
    cost, default = costs_of(task, [point, task.default], measurer, make_workers)
    if not _is_faster(cost, default):
        return ConfirmedSchedule(task.default, default, default)
    return ConfirmedSchedule(point, cost, default)


def _is_faster(cost: float, default: float) -> bool:
    return isfinite(default) and cost < FASTER * default


def costs_of(
    task: ConfirmedTask, points: Sequence[Point], measurer: Measurer, make_workers: MakeWorkers = one_process
) -> list[float]:
    """The costs of points, measured in one process; infinite for one that fails."""
    workers = make_workers(task, measurer)
    try:
        for number, point in enumerate(points):
            workers.submit(number, point)
        costs = dict(workers.take() for _ in points)
    finally:
        workers.close()
    return [costs[number].cost for number in range(len(points))]


# --- in logs --------------------------------------------------------------------------------------


def log_confirmed(log: TuningLog, run: TaskRun, schedule: ConfirmedSchedule, task: ConfirmedTask) -> None:
    """Write the default schedule, whose point is empty, and then another one that was confirmed."""
    confirmed_run = replace(run, search=CONFIRMED, seed=0)
    log.append(confirmed_run, Trial({}, schedule.default_seconds, AGAIN.unit))
    if schedule.point != task.default:
        log.append(confirmed_run, Trial(schedule.point, schedule.seconds, AGAIN.unit))


def logged_schedule(log: TuningLog, task: ConfirmedTask) -> ConfirmedSchedule | None:
    """What was confirmed last, if nothing was tried since."""
    entries = log.index.of_key(task.key)
    if not entries or entries[-1].run.search != CONFIRMED:
        return None
    last = entries[-1].trial
    if not last.point:
        return ConfirmedSchedule(task.default, last.cost, last.cost)
    return ConfirmedSchedule(last.point, last.cost, entries[-2].trial.cost)


def confirmed_in(
    log: TuningLog,
    task: ConfirmedTask,
    run: TaskRun,
    measurer: Measurer = AGAIN,
    make_workers: MakeWorkers = one_process,
) -> ConfirmedSchedule:
    """What was confirmed of all trials of a log, again only if something was tried since."""
    schedule = logged_schedule(log, task)
    if schedule is None:
        known = [entry.trial for entry in logged(log, task)]
        schedule = confirmed(task, known, measurer, make_workers)
        log_confirmed(log, run, schedule, task)
    return schedule


def tried(
    task: ConfirmedTask,
    run: TaskRun,
    workers: Workers,
    *,
    trials: int,
    log: TuningLog,
    show: Show,
    prior: Sequence[Group] = (),
) -> TuningReport:
    """The trials of a search, the default schedule first; the workers are closed behind them."""
    with closing(workers):
        search = new_search(run.search, task, run.seed, prior)
        return tune(task, search, run, workers, trials=trials, log=log, first=task.default, show=show)
