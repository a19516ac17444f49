# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing on the cost model: the default search, after the TVM paper (section 5.3).

Chains walk the space in parallel on the model's scores. A batch takes the best points that they
met, not too similar to each other, and a few at random. The model is trained afresh on all that was
told, and on measurements of other tasks where some are given; without them, the first batch is in
the estimate's order, and with them its first point is that of the lowest estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from vdla.compiler.tune.cost_model import ESTIMATE, CostModel, Features, Floats, Group
from vdla.compiler.tune.searches.search import SpaceSearch, ranked_sample
from vdla.compiler.tune.space import Ints
from vdla.compiler.tune.task import TuningTask

_CHAINS = 64
_STEPS = 60
_HOTTEST = 1.0  # in standard deviations of the scores; the temperature falls to 0
_AT_RANDOM = 0.05  # of the points
_VARIETY = 0.02  # what a value that a batch lacks is worth, in standard deviations of the scores
_CHOICE = 4  # points for each place of a batch
_MOST_KEPT = 1 << 16  # points whose features are kept
_MOST_RANKED = 1 << 20
_MOST_DRAWN = 1 << 18  # without estimates


class AnnealingSearch(SpaceSearch):
    """Measures what a model ranks first. `prior` has measured points of other tasks."""

    name = "annealing"
    takes_prior = True

    def __init__(self, task: TuningTask, seed: int = 0, prior: Sequence[Group] = ()) -> None:
        super().__init__(task, seed)
        self._prior = list(prior)
        self._model = CostModel(task.feature_names, seed)
        self._is_new = bool(prior)  # there is something that the model has not learned
        self._chains: Ints | None = None
        self._kept: Floats | None = None  # the scores of all points, where features are kept

    def _learn(self, indices: list[int], costs: list[float]) -> None:
        self._is_new = True

    def _choose(self, count: int) -> list[int]:
        self._train()
        if not self._model.is_trained:
            return self._new(self._by_estimate.tolist(), count)
        drawn = int(self.rng.binomial(count, _AT_RANDOM))
        indices = self._varied(self._anneal()[: _CHOICE * count], count - drawn)
        if not self.told:  # other tasks may be unlike this one: the estimate has a point too
            indices = [*self._new(map(int, self._by_estimate), 1), *indices]
        return self._new(indices, count)

    @cached_property
    def _by_estimate(self) -> Ints:
        """Points in the order of the first batch."""
        return ranked_sample(self, _MOST_RANKED)

    # --- the model

    def _train(self) -> None:
        """Train on what was told, if that is more than before."""
        if not self._is_new:
            return
        told = np.array(sorted(self.told), np.int64)
        costs = np.array([self.told[index] for index in told.tolist()])
        batches = [(self._features(told), costs)] if len(told) else []
        self._model.train([*batches, *((self._seen(features), costs) for features, costs in self._prior)])
        self._is_new, self._kept = False, None

    @cached_property
    def _table(self) -> Features | None:
        """The features of all points, unless there are too many."""
        size = self.task.space.size
        return self._seen(self.task.features(np.arange(size))) if size <= _MOST_KEPT else None

    def _features(self, indices: Ints) -> Features:
        return self._seen(self.task.features(indices)) if self._table is None else self._table[indices]

    def _seen(self, features: Features) -> Features:
        """What the model sees of features."""
        return features

    def _scores(self, indices: Ints) -> Floats:
        if self._table is None:
            return self._model.scores(self._features(indices))
        if self._kept is None:
            self._kept = self._model.scores(self._table)
        return self._kept[indices]

    # --- the walk

    def _anneal(self) -> Ints:
        """New points that the chains met, the best first."""
        space, at = self.task.space, self._starts()
        scores = self._scores(at)
        met, spread = [at], max(float(scores.std()), 1e-9)
        for step in range(_STEPS):
            temperature = _HOTTEST * spread * (1 - step / _STEPS)
            moved = space.mutated(self.rng, at)
            gain = self._scores(moved) - scores
            accepted = self.rng.random(len(at)) < np.exp(np.minimum(gain / temperature, 0.0))
            at, scores = np.where(accepted, moved, at), np.where(accepted, scores + gain, scores)
            met.append(moved)
        self._chains = at
        result = np.unique(np.concatenate(met))
        result = result[~np.isin(result, np.fromiter(self.used_indices, np.int64, len(self.used_indices)))]
        return result[np.argsort(-self._scores(result), kind="stable")]

    def _starts(self) -> Ints:
        """Where chains begin: half at the best told points and estimates, half where they ended."""
        best = sorted(self.told, key=lambda index: (self.told[index], index))[: _CHAINS // 4]
        fresh = np.array([*best, *self._by_estimate[: _CHAINS - len(best)].tolist()], np.int64)
        if self._chains is None:
            return fresh
        return np.concatenate([fresh[: len(fresh) // 2], self._chains[len(fresh) // 2 :]])

    def _varied(self, indices: Ints, count: int) -> list[int]:
        """`count` of the indices with high scores and many values of the knobs between them."""
        if not len(indices):
            return []
        scores, digits = self._scores(indices), self.task.space.digits(indices)
        spread = float(scores.std()) or 1.0
        chosen: list[int] = []
        seen = np.zeros((digits.shape[1], int(digits.max(initial=0)) + 1), bool)
        remaining = np.ones(len(indices), bool)
        knobs = np.arange(digits.shape[1])
        for _ in range(min(count, len(indices))):
            variety = (~seen[knobs, digits]).sum(axis=1)
            worth = np.where(remaining, scores / spread + _VARIETY * variety, -np.inf)
            best = int(worth.argmax())
            seen[knobs, digits[best]], remaining[best] = True, False
            chosen.append(int(indices[best]))
        return chosen


class BlindSearch(AnnealingSearch):
    """Learns from features other than estimates, and begins at random: what the TVM paper's search
    knew.
    """

    name = "blind"

    @cached_property
    def _by_estimate(self) -> Ints:
        return self.task.space.sample_indices(self.rng, _MOST_DRAWN)

    def _seen(self, features: Features) -> Features:
        """Features with those of the estimate as 0."""
        hidden = [name.startswith(ESTIMATE) for name in self.task.feature_names]
        return np.where(hidden, np.float32(0), features)
