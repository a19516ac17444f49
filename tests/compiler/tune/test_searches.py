# SPDX-License-Identifier: Apache-2.0
"""Searches: legal points, each once, the same for the same seed; annealing against the others."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from helpers.planted_task import PlantedTask, costs_of, trials_to

from vdla.compiler.tune import Knob, Point, Space, TuneError
from vdla.compiler.tune.searches import DEFAULT_SEARCH, SEARCHES, AnnealingSearch, new_search
from vdla.compiler.tune.searches.library import require_library

TASK = PlantedTask()
SMALL = Space("small", (Knob("y", (1, 2, 3)), Knob("x", (1, 2, 4, 8)), Knob("z", (False, True))))


class SmallTask(PlantedTask):
    """Few points."""

    space = SMALL

    def cost(self, point: Point) -> float:
        return 1.0 + SMALL.index(point)

    def estimate(self, indices: np.ndarray) -> np.ndarray:
        return 100.0 - indices

    def features(self, indices: np.ndarray) -> np.ndarray:
        return np.stack([np.log2(self.estimate(indices)), *self.space.digits(indices).T], axis=1).astype(np.float32)


def proposals(name: str, task: PlantedTask, seed: int, batches: int, count: int = 8) -> list[str]:
    """The points of a run, as text; a batch is told after the next one is proposed."""
    search = new_search(name, task, seed)
    waiting: list[list[Point]] = []
    shown: list[str] = []
    for _ in range(batches):
        waiting.append(search.propose(count))
        shown += map(str, waiting[-1])
        if len(waiting) > 1:
            points = waiting.pop(0)
            search.tell(points, [task.cost(point) for point in points])
    return shown


@pytest.mark.parametrize("name", SEARCHES)
def test_points_are_legal_and_proposed_once(name: str) -> None:
    search = new_search(name, TASK, 1)
    seen: set[int] = set()
    for _ in range(6):
        points = search.propose(8)
        assert len(points) == 8
        indices = {TASK.space.index(point) for point in points}
        assert len(indices) == 8
        assert not indices & seen
        seen |= indices
        search.tell(points, [TASK.cost(point) for point in points])


@pytest.mark.parametrize("name", SEARCHES)
def test_the_seed_decides_the_run(name: str) -> None:
    first = proposals(name, TASK, 3, batches=4)
    assert first == proposals(name, TASK, 3, batches=4)
    if name not in ("estimate", "grid", "exhaustive"):
        assert first != proposals(name, TASK, 4, batches=4)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_run_ends_when_the_space_is_exhausted(name: str) -> None:
    search, task = new_search(name, SmallTask(), 0), SmallTask()
    told = SMALL.point(5)
    search.tell([told], [task.cost(told)])
    found: list[Point] = []
    while points := search.propose(7):
        found += points
        search.tell(points, [float("inf") if SMALL.index(point) == 2 else task.cost(point) for point in points])
    assert sorted(map(SMALL.index, found)) == [index for index in range(24) if index != 5]
    assert search.propose(1) == []


def test_annealing_needs_fewer_trials_than_searches_without_a_model() -> None:
    goal = 1.02 * min(TASK.cost(point) for point in TASK.space.points())
    needed = {
        name: [trials_to(costs_of(new_search(name, TASK, seed), TASK, most), goal) for seed in range(3)]
        for name, most in (("annealing", 100), ("random", 400), ("estimate", 400))
    }
    middle = {name: statistics.median(trials) for name, trials in needed.items()}
    assert 3 * middle["annealing"] <= middle["random"]
    assert 3 * middle["annealing"] <= middle["estimate"]


def test_measurements_of_another_task_help() -> None:
    other = PlantedTask(best=(15, 7), scale=9)
    indices = other.space.sample_indices(np.random.default_rng(0), 100)
    prior = [(other.features(indices), np.array([other.cost(other.space.point(i)) for i in indices.tolist()]))]
    goal = 1.05 * min(TASK.cost(point) for point in TASK.space.points())
    alone = trials_to(costs_of(new_search("annealing", TASK, 0), TASK, 99), goal)
    helped = trials_to(costs_of(new_search("annealing", TASK, 0, prior), TASK, 99), goal)
    assert 2 * helped <= alone


def test_the_first_point_has_the_lowest_estimate_whatever_other_tasks_say() -> None:
    indices = np.arange(0, TASK.space.size, 7)
    prior = [(TASK.features(indices), 1 / TASK.estimate(indices))]
    first, *others = (TASK.space.index(point) for point in AnnealingSearch(TASK, 0, prior).propose(8))
    estimates = TASK.estimate(np.arange(TASK.space.size))
    assert estimates[first] == estimates.min()
    assert np.median(estimates[others]) > np.median(estimates)


def test_a_blind_search_does_not_depend_on_the_estimate() -> None:
    class OtherEstimate(PlantedTask):
        def estimate(self, indices: np.ndarray) -> np.ndarray:
            return 1.0 + indices % 7

    assert proposals("blind", TASK, 0, batches=5) == proposals("blind", OtherEstimate(), 0, batches=5)


def test_the_first_batch_of_annealing_is_in_the_order_of_the_estimate() -> None:
    indices = np.argsort(TASK.estimate(np.arange(TASK.space.size)), kind="stable")[:8].tolist()
    assert AnnealingSearch(TASK).propose(8) == [TASK.space.point(index) for index in indices]
    assert new_search("estimate", TASK).propose(8) == [TASK.space.point(index) for index in indices]


def test_grid_and_exhaustive_orders() -> None:
    task = SmallTask()
    grid = [SMALL.index(point) for point in new_search("grid", task).propose(9)]
    assert grid == [0, 16, 8, 4, 12, 20, 2, 6, 10]
    assert [SMALL.index(point) for point in new_search("exhaustive", task).propose(4)] == [0, 1, 2, 3]


def error(function: object, *arguments: object) -> str:
    with pytest.raises(TuneError) as caught:
        function(*arguments)  # type: ignore[operator]
    return str(caught.value)


def test_wrong_use_is_one_sentence() -> None:
    names = "annealing, blind, estimate, random, genetic, grid, exhaustive, optuna, nevergrad"
    assert DEFAULT_SEARCH == "annealing"
    assert error(new_search, "aneal", TASK) == (
        f"tune planted: search must be one of {names}, got aneal (did you mean annealing?)"
    )
    assert error(new_search, "random", TASK, -1) == "tune planted: seed must be an integer from 0, got -1"
    search = new_search("random", TASK)
    assert error(search.propose, 0) == "tune planted: count must be an integer from 1, got 0"
    assert error(search.tell, search.propose(2), [1.0]) == (
        "tune planted: costs must be 2, one for each point, got 1"
    )  # fmt: skip
    assert error(require_library, "no_such_library") == (
        'tune: no_such_library must be installed for this search, got none (pip install "vdla[tune]")'
    )
