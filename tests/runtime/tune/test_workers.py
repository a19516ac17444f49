# SPDX-License-Identifier: Apache-2.0
"""Workers: what dies or hangs costs its trial, not the run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from helpers.toy_tuning import ShuffledSearch, ToyMeasurer, ToyTask, toy_run

from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.tune import TuningReport, tune
from vdla.runtime.tune.workers import LocalWorkers

TASK = ToyTask()


def run(
    measurer: ToyMeasurer, count: int, trials: int, timeout_s: float = 60.0, warnings: list[str] | None = None
) -> TuningReport:
    workers = LocalWorkers(measurer, count, timeout_s, [].append if warnings is None else warnings.append)
    try:
        return tune(TASK, ShuffledSearch(TASK), toy_run(), workers, trials=trials)
    finally:
        workers.close()


def test_deaths_hangs_and_refusals_cost_their_trials() -> None:
    workers = LocalWorkers(ToyMeasurer(dies=3, hangs=9, refused=4), 2, timeout_s=3)
    try:
        workers.begin(TASK)
        for number, a in enumerate((3, 9, 4, 5, 6)):
            workers.submit(number, {"a": a, "b": 7})
        trials = dict(workers.take() for _ in range(5))
    finally:
        workers.close()
    assert [trials[number].error for number in range(5)] == [
        "trial: its worker must not end, got exit status 7",
        "trial: it must end within 3 s, got none; its worker was started again",
        "toy: a must not be 4, got it",
        "",
        "",
    ]
    assert [trials[number].cost for number in (3, 4)] == [100.0, 101.0]


def test_a_worker_that_is_killed_costs_its_trial(tmp_path: Path) -> None:
    begun = tmp_path / "pid"
    workers = LocalWorkers(ToyMeasurer(busy_s=0.3, pid_file=str(begun)), 1)
    try:
        workers.begin(TASK)
        workers.submit(0, {"a": 0, "b": 0})
        workers.submit(1, {"a": 1, "b": 0})
        while not begun.exists() or not begun.read_text():
            time.sleep(0.01)
        os.kill(int(begun.read_text()), signal.SIGKILL)
        trials = dict(workers.take() for _ in range(2))
    finally:
        workers.close()
    assert trials[0].error == "trial: its worker must not end, got signal 9"
    assert trials[1].cost == 165.0


def test_a_worker_that_lacks_what_the_task_needs_is_left_out(tmp_path: Path) -> None:
    warnings: list[str] = []
    report = run(ToyMeasurer(lacking="processor must have avx512f, got none", once=str(tmp_path)), 2, 9, 60.0, warnings)
    assert report.failed == 0 and len(report.trials) == 9
    assert len(warnings) == 1
    number = warnings[0].split("worker ")[1][0]
    what = f"worker {number}: processor must have avx512f, got none; the run goes on without it"
    assert warnings[0] == f"tune toy: {what}"


def test_a_task_that_no_worker_can_measure_ends_the_run() -> None:
    with pytest.raises(TuningError) as raised:
        run(ToyMeasurer(lacking="processor must have avx512f, got none"), 1, 3)
    assert str(raised.value) == "tune toy: worker 0: processor must have avx512f, got none"


def test_a_task_that_cannot_be_pickled_is_refused() -> None:
    class Local(ToyTask):
        pass

    with pytest.raises(TuningError) as raised:
        LocalWorkers(ToyMeasurer()).begin(Local())
    assert str(raised.value).startswith("tune toy: task must be one that can be pickled, got Can't pickle")


def test_the_number_of_workers_must_be_positive() -> None:
    with pytest.raises(TuningError) as raised:
        LocalWorkers(ToyMeasurer(), 0)
    assert str(raised.value) == "tune: workers must be at least 1, got 0"
