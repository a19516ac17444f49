# SPDX-License-Identifier: Apache-2.0
"""What all searches share, and simple ones: points by their indices, each proposed at most once.

A search is a class with a `name`, made from a task and a seed. The same seed and the same costs
give the same proposals. A batch may be proposed before the costs of the previous one are told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count as count_from
from itertools import islice
from typing import ClassVar

import numpy as np

from vdla.compiler.tune.space import Ints, Point, TuneError
from vdla.compiler.tune.task import TuningTask
from vdla.support.integers import is_int

_MOST = 1 << 20  # points that are ranked
_TRIES = 20  # generations for a batch
_POPULATION = 32
_MUTATED = 0.2  # of the children
_DENSE = 1 / 2  # of the points of a space: once more are used, the unused ones are listed


class SpaceSearch(ABC):
    """Proposes points of a task and learns their costs.

    A class with `takes_prior` is also given measured points of other tasks. `used_indices` are the
    indices of all points that were proposed or told, `told` the costs of those that were told.
    """

    name: ClassVar[str]
    takes_prior: ClassVar[bool] = False

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        if not is_int(seed) or seed < 0:
            raise TuneError(f"tune {task.name}: seed must be an integer from 0, got {seed!r}")
        self.task = task
        self.seed = int(seed)
        self.rng = np.random.default_rng([self.seed, *self.name.encode()])
        self.used_indices: set[int] = set()
        self.told: dict[int, float] = {}

    def propose(self, count: int) -> list[Point]:
        """Up to `count` new points; fewer where the space has no more.

        Raises:
            TuneError: `count` is not an integer from 1.
        """
        if not is_int(count) or count < 1:
            raise TuneError(f"tune {self.task.name}: count must be an integer from 1, got {count!r}")
        untried = self.task.space.size - len(self.used_indices)
        chosen = self._choose(min(int(count), untried)) if untried else []
        self.used_indices.update(chosen)
        return [self.task.space.point(index) for index in chosen]

    def tell(self, points: Sequence[Point], costs: Sequence[float]) -> None:
        """The costs of points, infinite where one failed; also of points that others proposed.

        Raises:
            TuneError: a point is not one of the space, or there is not one cost for each.
        """
        if len(points) != len(costs):
            raise TuneError(f"tune {self.task.name}: costs must be {len(points)}, one for each point, got {len(costs)}")
        indices = [self.task.space.index(point) for point in points]
        self.used_indices.update(indices)
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
        result: dict[int, None] = {}
        for index in indices:
            if len(result) == count:
                break
            if index not in self.used_indices:
                result[index] = None
        return [*result, *self._random(count - len(result), result)]

    def _random(self, count: int, besides: Iterable[int] = ()) -> list[int]:
        """`count` different new points at random, none of `besides`."""
        size, gone = self.task.space.size, self.used_indices.union(besides)
        if len(gone) + count > size * _DENSE:
            untried = np.setdiff1d(np.arange(size), np.fromiter(gone, np.int64, len(gone)))
            return [int(index) for index in self.rng.permutation(untried)[:count]]
        result: dict[int, None] = {}
        while len(result) < count:
            index = int(self.rng.integers(size))
            if index not in gone:
                result[index] = None
        return list(result)


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


class RandomSearch(SpaceSearch):
    """Draws points at random."""

    name = "random"

    def _choose(self, count: int) -> list[int]:
        return self._random(count)


class ExhaustiveSearch(SpaceSearch):
    """Takes the points in order; its best is the optimum, once it has all."""

    name = "exhaustive"
    _next = 0

    def _choose(self, count: int) -> list[int]:
        untried = (index for index in count_from(self._next) if index not in self.used_indices)
        chosen = list(islice(untried, count))
        self._next = chosen[-1] + 1
        return chosen


class GridSearch(SpaceSearch):
    """Takes the first point, the middle one, those at quarters, and so on."""

    name = "grid"

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        super().__init__(task, seed)
        self._order = _refined(task.space.size)

    def _choose(self, count: int) -> list[int]:
        fresh = dict.fromkeys(islice((index for index in self._order if index not in self.used_indices), count))
        return list(fresh)


def _refined(size: int) -> Iterator[int]:
    """0 to `size - 1`, each once: with a step that halves, those that no larger step met."""
    step = 1 << max(0, (size - 1).bit_length())
    yield 0
    while step > 1:
        yield from range(step // 2, size, step)
        step //= 2


class EstimateSearch(SpaceSearch):
    """Takes points from the lowest estimate up; of a very large space, first those of a sample."""

    name = "estimate"

    @cached_property
    def _order(self) -> Iterator[int]:
        return iter(ranked_sample(self, _MOST).tolist())

    def _choose(self, count: int) -> list[int]:
        return self._new(self._order, count)


class GeneticSearch(SpaceSearch):
    """Children of two good points, each knob from one of them, sometimes mutated; the first
    generation is random.

    The parents are the best points so far, so a generation is a batch.
    """

    name = "genetic"

    def _choose(self, count: int) -> list[int]:
        if len(self.told) < 2 or len(self.used_indices) < _POPULATION:
            return self._random(count)
        children: list[int] = []
        for _ in range(_TRIES):
            children += self._children(count).tolist()
            if len(set(children) - self.used_indices) >= count:
                break
        return self._new(children, count)

    def _children(self, count: int) -> Ints:
        """Legal children of parents that are drawn with a chance that falls with their rank."""
        space = self.task.space
        parents = np.array(sorted(self.told, key=lambda index: (self.told[index], index))[:_POPULATION])
        chance = np.arange(len(parents), 0, -1) / (len(parents) * (len(parents) + 1) / 2)
        pairs = space.digits(self.rng.choice(parents, 2 * count, p=chance)).reshape(2, count, -1)
        born = space.indices(np.where(self.rng.random(pairs[0].shape) < 0.5, pairs[0], pairs[1]))
        born = born[born >= 0]
        mutated = self.rng.random(len(born)) < _MUTATED
        again = np.isin(born, np.fromiter(self.used_indices, np.int64, len(self.used_indices)))
        return np.where(mutated | again, space.mutated(self.rng, born), born)
