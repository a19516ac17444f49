# SPDX-License-Identifier: Apache-2.0
"""Pools: measured points of a task, on which searches are replayed without measuring again.

A pool is a sample of the space, drawn evenly, so that good points are as rare as in the space; its
best is the best known. Costs are exact cycles of the simulator. They are cached by a hash of the
task and of the programs and cycles of some of the points.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune import Built, Point, Space, VdlaTask
from vdla.compiler.tune.cost_model import Group
from vdla.compiler.tune.searches import new_search
from vdla.compiler.tune.space import Ints
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.simulator.timing import time_program
from vdla.support.cache import build_once, user_cache
from vdla.support.errors import Error
from vdla.support.parallel import parallel_map

_AT_ONCE = 16
_WITNESSES = 6


@dataclass(frozen=True, eq=False)
class Pool:
    """Points of a task by their indices, ascending, and their costs; infinite where one failed."""

    task: VdlaTask
    indices: Ints
    costs: NDArray[np.float64]

    @cached_property
    def space(self) -> Space:
        """The pool as a space of its own."""
        whole = self.task.space
        codes = whole.codes(whole.digits(self.indices))
        return Space(whole.name, whole.knobs, codes)

    @property
    def best(self) -> float:
        """The least cost."""
        return float(self.costs.min())

    @property
    def failed(self) -> int:
        """Points that could not be built."""
        return int(np.isinf(self.costs).sum())

    def cost(self, point: Point) -> float:
        """The cost of a point of the pool."""
        return float(self.costs[self.space.index(point)])


@dataclass(frozen=True, eq=False)
class PoolTask:
    """A task whose only points are those of a pool."""

    pool: Pool

    @property
    def name(self) -> str:
        """As the task's."""
        return self.pool.task.name

    @property
    def key(self) -> str:
        """As the task's."""
        return self.pool.task.key

    @property
    def space(self) -> Space:
        """The pool."""
        return self.pool.space

    @property
    def feature_names(self) -> tuple[str, ...]:
        """As the task's."""
        return self.pool.task.feature_names

    def of_log(self, point: Point) -> Point:
        """As the task does."""
        return self.pool.task.of_log(point)

    def build(self, point: Point) -> Built:
        """As the task does."""
        return self.pool.task.build(point)

    def draft(self, point: Point) -> Built:
        """As the task does."""
        return self.pool.task.draft(point)

    def overhead(self, point: Point) -> float:
        """As the task's."""
        return self.pool.task.overhead(point)

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """As the task's."""
        return self.pool.task.estimate(self.pool.indices[indices])

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """As the task's."""
        return self.pool.task.features(self.pool.indices[indices])


def measured_pool(task: VdlaTask, count: int, seed: int) -> Pool:
    """A random pool of a task: measured now, or read from the cache."""
    indices = np.sort(task.space.sample_indices(np.random.default_rng(seed), count))
    name = content_name(task, indices)

    def build(folder: Path) -> Path:
        path = folder / "costs.npy"
        np.save(path, measured(task, indices))
        return path

    return Pool(task, indices, np.load(build_once(user_cache("tune") / f"{name}.npy", build)))


def content_name(task: VdlaTask, indices: Ints) -> str:
    """A name for the costs of points: another one where programs or cycles of some differ."""
    chosen = indices[:: -(-len(indices) // _WITNESSES)].tolist()
    content = json.dumps([task.key, indices.tolist(), [_witness(task, task.space.point(index)) for index in chosen]])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _witness(task: VdlaTask, point: Point) -> str:
    """What a point is compiled to and what it costs, in which changes of the code show."""
    try:
        program = task.draft(point)
    except Error as error:
        return str(error)
    return f"{program.hash} {time_program(program).total_cycles}"


def measured(task: VdlaTask, indices: Ints) -> NDArray[np.float64]:
    """The costs of points, on all processors."""
    parts = [(task, indices[start : start + _AT_ONCE]) for start in range(0, len(indices), _AT_ONCE)]
    return np.concatenate(parallel_map(_measured_here, parts))


def _measured_here(part: tuple[VdlaTask, Ints]) -> NDArray[np.float64]:
    task, indices = part
    return np.array([simulated_cost(task, task.space.point(index)) for index in indices.tolist()])


def simulated_cost(task: VdlaTask, point: Point) -> float:
    """The exact cost of a point; infinite if it fails."""
    try:
        return SimMeasurer().measure(task, point)
    except Error:
        return float("inf")


# --- replay ---------------------------------------------------------------------------------------
# Runs of searches on pools, as the tuning loop makes them, without measuring.


CLOSE = 0.99
"""A cost is close to the best known cost if the best is at least this share of it."""
BATCH = 8


def replay(name: str, task: PoolTask, seed: int, prior: Sequence[Group] = ()) -> list[float]:
    """The costs of a search's trials, until one is close to the best known.

    A batch is proposed before the costs of the previous one are known, as for workers that never
    wait.
    """
    search, goal = new_search(name, task, seed, prior), task.pool.best / CLOSE
    result: list[float] = []
    waiting = deque([search.propose(BATCH)])
    while points := waiting.popleft():
        waiting.append(search.propose(BATCH))
        costs = [task.pool.cost(point) for point in points]
        for cost in costs:
            result.append(cost)
            if cost <= goal:
                return result
        search.tell(points, costs)
    return result


def median_trials(runs: Sequence[Sequence[float]]) -> float:
    """The median of the trials of runs."""
    return statistics.median(map(len, runs))
