"""What all searches share: points by their indices, each proposed at most once.

A search is a class with a `name`, made from a task and a seed. The same seed and the same costs
give the same proposals. Batches may be proposed before the one before has been told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from vdla.compiler.tune.errors import TuneError
from vdla.compiler.tune.space import Ints, Point
from vdla.compiler.tune.task import TuningTask
from vdla.support.integers import is_int

_DENSE = 1 / 2  # of a space: beyond it, what is left is listed


class SpaceSearch(ABC):
    """Proposes points of a task and learns their costs.

    A class with `takes_prior` is also given measured points of other tasks. `taken` has the points
    that were proposed or told, `told` the costs of those that were told.
    """

    name: ClassVar[str]
    takes_prior: ClassVar[bool] = False

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        if not is_int(seed) or seed < 0:
            raise TuneError(f"tune {task.name}: seed must be an integer from 0, got {seed!r}")
        self.task = task
        self.seed = int(seed)
        self.rng = np.random.default_rng([self.seed, *self.name.encode()])
        self.taken: set[int] = set()
        self.told: dict[int, float] = {}

    def propose(self, count: int) -> list[Point]:
        """Up to `count` new points; fewer where the space has no more.

        Raises:
            TuneError: `count` is not an integer from 1.
        """
        if not is_int(count) or count < 1:
            raise TuneError(f"tune {self.task.name}: count must be an integer from 1, got {count!r}")
        left = self.task.space.size - len(self.taken)
        chosen = self._choose(min(int(count), left)) if left else []
        self.taken.update(chosen)
        return [self.task.space.point(index) for index in chosen]

    def tell(self, points: Sequence[Point], costs: Sequence[float]) -> None:
        """The costs of points, infinite where one failed; also of points that others proposed.

        Raises:
            TuneError: a point is not one of the space, or there is not one cost for each.
        """
        if len(points) != len(costs):
            raise TuneError(f"tune {self.task.name}: costs must be {len(points)}, one for each point, got {len(costs)}")
        indices = [self.task.space.index(point) for point in points]
        self.taken.update(indices)
        self.told.update(zip(indices, map(float, costs), strict=True))
        self._learn(indices, list(map(float, costs)))

    @abstractmethod
    def _choose(self, count: int) -> list[int]:
        """`count` different points that are not taken; the space has as many."""

    def _learn(self, indices: list[int], costs: list[float]) -> None:  # noqa: B027  many need not
        """Take up new costs, beside `told`."""

    # --- for subclasses

    def _new(self, indices: Iterable[int], count: int) -> list[int]:
        """The first `count` of the indices that are new, each once, filled up at random."""
        found: dict[int, None] = {}
        for index in indices:
            if len(found) == count:
                break
            if index not in self.taken:
                found[index] = None
        return [*found, *self._random(count - len(found), found)]

    def _random(self, count: int, besides: Iterable[int] = ()) -> list[int]:
        """`count` different new points at random, none of `besides`."""
        size, gone = self.task.space.size, self.taken.union(besides)
        if len(gone) + count > size * _DENSE:
            left = np.setdiff1d(np.arange(size), np.fromiter(gone, np.int64, len(gone)))
            return [int(index) for index in self.rng.permutation(left)[:count]]
        found: dict[int, None] = {}
        while len(found) < count:
            index = int(self.rng.integers(size))
            if index not in gone:
                found[index] = None
        return list(found)


def ranked_sample(search: SpaceSearch, most: int) -> Ints:
    """All points, or `most` at random where there are more, from the lowest estimate up.

    They are in random order where the estimate says nothing.
    """
    space = search.task.space
    indices = np.arange(space.size) if space.size <= most else space.sample_indices(search.rng, most)
    estimates = search.task.estimate(indices)
    if estimates.min() == estimates.max():
        return search.rng.permutation(indices)
    return indices[np.argsort(estimates, kind="stable")]
