"""Genetic search: children of two good points, each knob from one of them, sometimes mutated.

The parents are the best points so far, so a generation is a batch.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.tune.searches.search import SpaceSearch
from vdla.compiler.tune.space import Ints

_POPULATION = 32
_MUTATED = 0.2  # of the children
_TRIES = 20


class GeneticSearch(SpaceSearch):
    """Crosses the best points; the first generation is random."""

    name = "genetic"

    def _choose(self, count: int) -> list[int]:
        if len(self.told) < 2 or len(self.taken) < _POPULATION:
            return self._random(count)
        children: list[int] = []
        for _ in range(_TRIES):
            children += self._children(count).tolist()
            if len(set(children) - self.taken) >= count:
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
        again = np.isin(born, np.fromiter(self.taken, np.int64, len(self.taken)))
        return np.where(mutated | again, space.mutated(self.rng, born), born)
