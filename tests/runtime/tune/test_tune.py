# SPDX-License-Identifier: Apache-2.0
"""The loop: deterministic, resumable, nothing measured twice."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers.toy_tuning import ShuffledSearch, ToyMeasurer, ToyTask, toy_run

from vdla.compiler.tune import Point
from vdla.compiler.tune.searches import new_search
from vdla.runtime.tune.log import TuningLog
from vdla.runtime.tune.trial import Trial, TuningError
from vdla.runtime.tune.tune import TuningProgress, TuningReport, tune
from vdla.runtime.tune.workers import InlineWorkers

TASK = ToyTask()


class Counting(InlineWorkers):
    """Counts what is measured."""

    def __init__(self, measurer: ToyMeasurer) -> None:
        super().__init__(measurer)
        self.measured: list[Point] = []

    def submit(self, number: int, point: Point) -> None:
        self.measured.append(point)
        super().submit(number, point)


class Backwards(Counting):
    """Ends trials in the wrong order."""

    def take(self) -> tuple[int, Trial]:
        self._waiting.reverse()
        return super().take()


def tuned(
    trials: int = 20, log: TuningLog | None = None, seed: int = 0, workers: Counting | None = None
) -> tuple[TuningReport, Counting, ShuffledSearch]:
    workers, search = workers or Counting(ToyMeasurer()), ShuffledSearch(TASK, seed)
    return tune(TASK, search, toy_run(seed), workers, trials=trials, log=log, batch=3), workers, search


def points(report: TuningReport) -> list[Point]:
    return [trial.point for trial in report.trials]


def test_the_best_of_a_whole_space_is_its_minimum() -> None:
    report, workers, _ = tuned(trials=1000)
    assert len(report.trials) == len(workers.measured) == TASK.space.size
    assert (report.best.cost, report.best.point) == (100.0, {"a": 5, "b": 7})
    assert report.best_so_far() == sorted(report.best_so_far(), reverse=True)


def test_a_run_ends_with_a_trial_that_costs_little_enough() -> None:
    report = tune(TASK, ShuffledSearch(TASK, 0), toy_run(0), Counting(ToyMeasurer()), trials=1000, enough=110.0)
    costs = [trial.cost for trial in report.trials]
    first = next(number for number, cost in enumerate(costs) if cost <= 110.0)
    assert first < len(costs) <= first + 3 * 8 < TASK.space.size, "what was under way is measured"


def test_the_order_in_which_trials_end_does_not_matter() -> None:
    report, _, search = tuned()
    other, _, told = tuned(workers=Backwards(ToyMeasurer()))
    assert points(report) == points(other) != points(tuned(seed=1)[0])
    assert search.told == told.told


def test_a_run_goes_on_from_its_log_as_if_it_had_not_ended(tmp_path: Path) -> None:
    whole, _, _ = tuned(trials=20)
    with TuningLog(tmp_path / "log.jsonl") as log:
        first, _, _ = tuned(trials=7, log=log)
    with TuningLog(tmp_path / "log.jsonl") as log:
        rest, workers, _ = tuned(trials=20, log=log)
    assert points(rest) == points(whole)
    assert rest.reused == 7 and workers.measured == points(whole)[7:]
    assert points(first) == points(whole)[:7]


def test_a_finished_run_measures_nothing_again(tmp_path: Path) -> None:
    with TuningLog(tmp_path / "log.jsonl") as log:
        report, _, _ = tuned(log=log)
        again, workers, _ = tuned(log=log)
    assert not workers.measured and again.reused == 20
    assert [trial.cost for trial in again.trials] == [trial.cost for trial in report.trials]


def test_trials_of_other_runs_are_told_and_not_repeated(tmp_path: Path) -> None:
    with TuningLog(tmp_path / "log.jsonl") as log:
        tuned(log=log, trials=100)
        other, workers, search = tuned(log=log, seed=1, trials=200)
        assert len(search.told) == 256 and len(log.index) == 256
    assert len(workers.measured) == len(other.trials) == 156


def test_failed_trials_are_told_as_infinite() -> None:
    report, _, search = tuned(trials=256, workers=Counting(ToyMeasurer(refused=5)))
    assert report.failed == 16
    assert {trial.error for trial in report.trials} == {"", "toy: a must not be 5, got it"}
    assert sum(math.isinf(cost) for _, cost in search.told) == 16
    assert report.best.cost == 101.0


def test_a_run_without_a_success_says_why() -> None:
    report, _, _ = tuned(trials=1000, workers=Counting(ToyMeasurer(refused=5)))
    failed = TuningReport(report.run, tuple(trial for trial in report.trials if not trial.ok), 0)
    with pytest.raises(TuningError) as raised:
        _ = failed.best
    assert str(raised.value) == "tune toy: a trial must succeed, got 16 failed: toy: a must not be 5, got it"


def test_progress_counts_trials_and_has_the_best() -> None:
    seen: list[TuningProgress] = []
    tune(TASK, ShuffledSearch(TASK), toy_run(), Counting(ToyMeasurer()), trials=5, batch=2, show=seen.append)
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert seen[-1].done == seen[-1].total == 5
    assert seen[-1].best == min((e.best for e in seen if e.best), key=lambda trial: trial.cost)


@pytest.mark.parametrize("name", ["trials", "batch"])
def test_numbers_must_be_positive(name: str) -> None:
    options = {"trials": 1, "batch": 1, name: 0}
    with pytest.raises(TuningError) as raised:
        tune(TASK, ShuffledSearch(TASK), toy_run(), Counting(ToyMeasurer()), **options)
    assert str(raised.value) == f"tune toy: {name} must be at least 1, got 0"


def test_a_first_point_is_tried_before_what_the_search_proposes() -> None:
    first = points(tuned()[0])[5]
    search = new_search("random", TASK, 0)
    report = tune(TASK, search, toy_run(), InlineWorkers(ToyMeasurer()), trials=7, first=first, batch=3)
    assert points(report)[0] == first and points(report).count(first) == 1
    assert len(report.trials) == 7
