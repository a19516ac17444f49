# SPDX-License-Identifier: Apache-2.0
"""Layers whose first estimate was wrong: the three programs of one, and the figures."""

from __future__ import annotations

from math import inf

import pytest

from vdla.benchmarks.tune import bad_estimate
from vdla.benchmarks.tune.bad_estimate import FIRST, EstimateRun, estimate_figures, estimate_run
from vdla.benchmarks.tune.convergence import Case
from vdla.compiler.operators.workloads import workload
from vdla.compiler.tune import Point, VdlaTask, layer_task
from vdla.hardware.config import Config


def test_a_run_has_the_first_choice_and_so_many_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[Point] = []

    def cost(task: VdlaTask, point: Point) -> float:
        trials.append(point)
        return inf if len(trials) == 3 else 20000.0 - len(trials)

    monkeypatch.setattr(bad_estimate, "simulated_cost", cost)
    case = Case("D8")
    run = estimate_run(case, FIRST[case], seed=0, trials=12)
    assert (run.first, len(trials), run.best, run.failed) == (17972, 12, 19988.0, 1)
    assert run.row["gain"] == round(17972 / 19988, 4)


def test_figures_are_the_mean_gain_and_the_worst_untuned_choice() -> None:
    task = layer_task(workload("D8"), Config.preset("pynq_z1"))
    runs = [
        EstimateRun(task=task, first=400, untuned=101, best=100.0, failed=0),
        EstimateRun(task=task, first=100, untuned=100, best=100.0, failed=2),
    ]
    assert estimate_figures(runs) == {
        "bad_estimate_gain": 2.0, "bad_estimate_untuned": 1.01, "bad_estimate_failed": 2,
    }  # fmt: skip
