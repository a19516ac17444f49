# SPDX-License-Identifier: Apache-2.0
"""Convergence: pools of measured points, replayed searches, figures, the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from vdla.benchmarks.harness import SubjectError
from vdla.benchmarks.tune import pool as pools
from vdla.benchmarks.tune.benchmark import run
from vdla.benchmarks.tune.convergence import SHOWN, _figures, _row, picture_of, transferred
from vdla.benchmarks.tune.pool import CLOSE, Pool, PoolTask, measured_pool, replay
from vdla.compiler.templates import conv2d
from vdla.compiler.tune import VdlaTask, template_task
from vdla.hardware.config import Config
from vdla.runtime.tune.measurer import SimMeasurer


def small_task() -> VdlaTask:
    shape = {"batch": 1, "height": 4, "width": 4, "in_channels": 8, "out_channels": 8, "kernel": 1}
    return template_task(conv2d, Config.preset("tiny"), **shape)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def pool(cache: str) -> Pool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", cache)
        return measured_pool(small_task(), 24, 0)


def test_a_pool_has_exact_costs_and_is_measured_once(pool: Pool, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    point = pool.space.point(3)
    assert pool.cost(point) == SimMeasurer().measure(pool.task, point)
    assert pool.failed == 0
    assert pool.space.size == 24
    monkeypatch.setattr(pools, "measured", None)
    assert np.array_equal(measured_pool(small_task(), 24, 0).costs, pool.costs)


def test_a_pool_is_a_space_of_its_own(pool: Pool) -> None:
    task, some = PoolTask(pool), np.array([0, 5, 23])
    assert [pool.task.space.index(task.space.point(index)) for index in some] == pool.indices[some].tolist()
    assert np.array_equal(task.features(some), pool.task.features(pool.indices[some]))
    assert np.array_equal(task.estimate(some), pool.task.estimate(pool.indices[some]))


@pytest.mark.parametrize("name", ["random", "annealing"])
def test_a_replay_ends_close_to_the_best(pool: Pool, name: str) -> None:
    costs = replay(name, PoolTask(pool), 1)
    assert costs[-1] <= pool.best / CLOSE
    assert all(cost > pool.best / CLOSE for cost in costs[:-1])
    assert costs == replay(name, PoolTask(pool), 1)


def test_figures_are_ratios_of_trials(pool: Pool) -> None:
    trials = {"annealing": 2, "blind": 20, "random": 100, "genetic": 50, "estimate": 4}
    trials |= {transferred("annealing"): 3, transferred("blind"): 5}
    runs = {name: [[float(count)] * count] * 3 for name, count in trials.items()}
    row = _row(pool, runs)
    assert (row["random"], row["hard"], row["failed"]) == (100, 1, 0)
    assert _figures([row, row], [pool]) == {
        "hard_layers": 2, "vs_random": 0.02, "vs_genetic": 0.04, "vs_estimate": 0.5, "blind_vs_random": 0.2,
        "blind_vs_genetic": 0.4, "with_transfer": 0.25, "seeded_with_transfer": 1.5, "invalid_measured": 0,
    }  # fmt: skip


def test_without_hard_layers_there_is_nothing_to_compare(pool: Pool) -> None:
    assert _figures([], [pool]) == {"hard_layers": 0, "invalid_measured": 0}


def test_the_picture_has_a_curve_for_each_search(pool: Pool) -> None:
    runs = {name: [[2 * pool.best, pool.best]] for name in SHOWN}
    svg = ET.fromstring(picture_of([(pool.best, runs)]))
    assert len(svg.findall("{*}polyline")) == len(SHOWN)
    texts = [text.text for text in svg.findall("{*}text")]
    assert {*texts} >= {*(f"{name} 100" for name in SHOWN), "trials", "50", "100"}


def test_an_unknown_section_is_refused() -> None:
    with pytest.raises(SubjectError) as caught:
        run(subjects=["convergance"])
    assert str(caught.value) == (
        "bench tune: section must be one of bad_estimate, convergence, cpu_speedup, grid_speedup, kills, optimum, "
        "workers, got convergance (did you mean convergence?)"
    )  # fmt: skip
