"""Annealing on a cost model that has no estimate: what the TVM paper's search knew."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vdla.compiler.tune.cost_model import ESTIMATE, Features
from vdla.compiler.tune.searches.annealing import AnnealingSearch
from vdla.compiler.tune.space import Ints

_MOST = 1 << 18


class BlindSearch(AnnealingSearch):
    """Learns from features other than estimates, and begins at random."""

    name = "blind"

    @cached_property
    def _by_estimate(self) -> Ints:
        return self.task.space.sample_indices(self.rng, _MOST)

    def _seen(self, features: Features) -> Features:
        """Features with those of the estimate as 0."""
        hidden = [name.startswith(ESTIMATE) for name in self.task.feature_names]
        return np.where(hidden, np.float32(0), features)
