# SPDX-License-Identifier: Apache-2.0
"""A tuned CPU kernel is taken if it is faster than the default schedule in two processes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest

from vdla.compiler import te
from vdla.compiler.operators import matmul
from vdla.compiler.target import host
from vdla.compiler.tune import CpuTask, Point, TuningTask, function_task
from vdla.runtime.tune.best import TunedSchedules
from vdla.runtime.tune.confirm import MakeWorkers, confirmed, log_confirmed, logged_schedule
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.workers import InlineWorkers, Workers
from vdla.support.errors import Error


@pytest.fixture(scope="module")
def task() -> CpuTask:
    a, b = te.placeholder((8, 16), "float32", "a"), te.placeholder((16, 16), "float32", "b")
    return function_task(te.create_function([a, b], [matmul(a, b, name="c")], "product"), host())


def other(task: CpuTask, number: int) -> Point:
    """The points that are not the default one, by number."""
    return [point for point in task.space.points() if point != task.default][number]


def spelled(point: Point) -> str:
    return str(sorted(point.items()))


@dataclass(frozen=True, slots=True)
class Given(CpuMeasurer):
    """Costs of points, 1 for all others; fails where the cost is infinite."""

    costs: tuple[tuple[str, float], ...] = ()

    def measure(self, task: TuningTask, point: Point) -> float:
        cost = dict(self.costs).get(spelled(point), 1.0)
        if cost == inf:
            raise Error("it crashed")
        return cost


def processes(*costs: dict[str, float]) -> MakeWorkers:
    """Workers of which each measures the next of some costs."""
    left = iter(costs)

    def make_workers(task: TuningTask, measurer: Measurer) -> Workers:
        workers = InlineWorkers(Given(costs=tuple(next(left).items())))
        workers.begin(task)
        return workers

    return make_workers


def trials(task: CpuTask) -> list[Trial]:
    """The default schedule and two others that seemed faster, and one that failed."""
    costs = (0.9, 0.8, inf)
    others = [Trial(other(task, number), cost, "seconds") for number, cost in enumerate(costs)]
    return [Trial(task.default, 1.0, "seconds"), *others]


CASES = {
    "the fastest of those measured again": ([{0: 0.7, 1: 0.9}, {0: 0.75}], 0, 0.75),
    "faster only once": ([{0: 0.7}, {0: 1.0}], None, 1.0),
    "within the noise": ([{0: 0.995, 1: 0.992}], None, 1.0),
    "one crashes": ([{0: inf, 1: 0.5}, {1: 0.5}], 1, 0.5),
    "all crash": ([{0: inf, 1: inf}], None, 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_is_taken_if_it_is_faster_twice(name: str, task: CpuTask) -> None:
    costs, taken, seconds = CASES[name]
    named = [{spelled(other(task, number)): cost for number, cost in each.items()} for each in costs]
    found = confirmed(task, trials(task), make_workers=processes(*named))
    assert found.point == (task.default if taken is None else other(task, taken))
    assert found.speedup == 1 / seconds


def test_without_a_trial_the_default_stays(task: CpuTask) -> None:
    found = confirmed(task, [], make_workers=processes({}))
    assert (found.point, found.speedup) == (task.default, 1.0)


def test_a_default_that_fails_is_not_beaten(task: CpuTask) -> None:
    failing = {spelled(task.default): inf}
    assert confirmed(task, trials(task), make_workers=processes(failing)).point == task.default


def test_networks_take_what_was_confirmed_last(task: CpuTask, tmp_path: Path) -> None:
    run, path = TaskRun(task.key, task.name, "", "", "given", 0), tmp_path / "log.jsonl"
    faster = {spelled(other(task, 0)): 0.5}
    for costs, taken in ((faster, other(task, 0)), ({}, None)):
        with TuningLog(path) as log:
            for trial in trials(task):
                log.append(run, trial)
            assert logged_schedule(log, task) is None  # of these trials
            schedule = confirmed(task, trials(task), make_workers=processes(costs, costs))
            log_confirmed(log, run, schedule, task)
            assert logged_schedule(log, task) == schedule
        assert TunedSchedules.of(path).kernel_point(task.key) == taken  # the best of the trials is another
    assert len(log.index.tried(task.key)) == 2 * len(trials(task))
