# SPDX-License-Identifier: Apache-2.0
"""A task whose costs are a formula, and whose estimate is wrong about where the best points are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune import Built, Knob, Point, Space
from vdla.compiler.tune.searches import SpaceSearch
from vdla.compiler.tune.space import Columns, Ints

SIZES = tuple(range(1, 25))


@dataclass(frozen=True, eq=False)
class PlantedTask:
    """Costs rise with the distance from a point; `scale` stretches the whole task."""

    best: tuple[int, int] = (17, 6)
    scale: int = 1
    name: str = "planted"
    key: str = "0" * 16
    feature_names: tuple[str, ...] = ("estimate", "y", "x", "kind")

    @cached_property
    def space(self) -> Space:
        knobs = [Knob("y", SIZES), Knob("x", SIZES), Knob("kind", ("fast", "slow", "slower"))]
        return Space.where("planted", knobs, lambda columns: np.asarray(columns["y"] * columns["x"] <= 300))

    def of_log(self, point: Point) -> Point:
        """The same point."""
        return point

    def build(self, point: Point) -> Built:
        raise NotImplementedError

    def draft(self, point: Point) -> Built:
        return self.build(point)

    def overhead(self, point: Point) -> float:
        return 0.0

    def cost(self, point: Point) -> float:
        return float(self._costs({name: np.array([value]) for name, value in point.items()}, self.best)[0])

    def _costs(self, columns: Columns, best: tuple[int, int]) -> NDArray[np.float64]:
        far = sum(np.log2(columns[name] / at) ** 2 for name, at in zip(("y", "x"), best, strict=True))
        slower = np.array([1.0, 1.5, 2.0])[np.searchsorted(["fast", "slow", "slower"], columns["kind"])]
        return np.asarray(1000.0 * self.scale * (1 + far) * slower)

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        return self._costs(self.space.columns(indices), (3, 20))

    def features(self, indices: Ints) -> NDArray[np.float32]:
        columns = self.space.columns(indices)
        kinds = np.searchsorted(["fast", "slow", "slower"], columns["kind"])
        return np.stack(
            [np.log2(self.estimate(indices)), np.log2(columns["y"]), np.log2(columns["x"]), kinds], axis=1
        ).astype(np.float32)


def costs_of(search: SpaceSearch, task: PlantedTask, trials: int, batch: int = 8) -> list[float]:
    """The costs of the first trials of a search, in order."""
    found: list[float] = []
    while len(found) < trials and (points := search.propose(batch)):
        costs = [task.cost(point) for point in points]
        search.tell(points, costs)
        found += costs
    return found


def trials_to(costs: Sequence[float], goal: float) -> int:
    """How many trials it took to reach a cost; one more than there are if none did."""
    return next((number for number, cost in enumerate(costs, 1) if cost <= goal), len(costs) + 1)
