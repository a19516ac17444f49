"""Runs of searches on pools, as the tuning loop makes them, without measuring."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

from vdla.benchmarks.tune.pool import PoolTask
from vdla.compiler.tune.cost_model import Group
from vdla.compiler.tune.searches import new_search

CLOSE = 0.99
"""A cost is close to the best known one where that is this share of it."""
BATCH = 8


def replay(name: str, task: PoolTask, seed: int, prior: Sequence[Group] = ()) -> list[float]:
    """The costs of a search's trials, until one is close to the best known.

    A batch is proposed before the one before it has been told, as for workers that never wait.
    """
    search, goal = new_search(name, task, seed, prior), task.pool.best / CLOSE
    found: list[float] = []
    waiting = deque([search.propose(BATCH)])
    while points := waiting.popleft():
        waiting.append(search.propose(BATCH))
        costs = [task.pool.cost(point) for point in points]
        for cost in costs:
            found.append(cost)
            if cost <= goal:
                return found
        search.tell(points, costs)
    return found


def median_trials(runs: Sequence[Sequence[float]]) -> float:
    """The median of the trials of runs."""
    return statistics.median(map(len, runs))
