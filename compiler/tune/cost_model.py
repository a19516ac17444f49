# SPDX-License-Identifier: Apache-2.0
"""The learned cost model: gradient-boosted trees that rank points by their features.

XGBoost with a rank objective, as in the TVM paper: pairs of points of one task, never of two, so
that tasks of any size train one model. The trees begin from the estimate and learn where it is
wrong. The same data and seed give the same model.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune.space import TuneError

if TYPE_CHECKING:
    import xgboost

Features = NDArray[np.float32]
Floats = NDArray[np.float64]
Group = tuple[Features, Floats]
"""[point, feature] and the costs of measured points of one task; infinite where one failed."""

ESTIMATE = "estimate"
"""The name of a feature that is log2 of an estimate of the cost."""

_TRUST = 4.0  # scores between points where one is estimated to cost twice the other
_BEFORE = 0.02  # points before the first, each of spread 1
_ROUNDS = 50
_GRADES = 31  # of points of a task, the best highest; what the objective takes at most
_PARAMETERS = {
    "objective": "rank:pairwise",
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 4,
    "max_depth": 4,
    "eta": 0.2,
    "min_child_weight": 0.1,
    "nthread": 1,
    "tree_method": "hist",
    "verbosity": 0,
}


class CostModel:
    """Scores points; before it is trained, by the estimate alone."""

    def __init__(self, feature_names: Sequence[str], seed: int = 0) -> None:
        if find_spec("xgboost") is None:
            raise TuneError('tune: xgboost must be installed for a cost model, got none (pip install "vdla[tune]")')
        self._estimate = feature_names.index(ESTIMATE) if ESTIMATE in feature_names else None
        self._seed = seed
        self._trust = _TRUST
        self._booster: xgboost.Booster | None = None

    @property
    def is_trained(self) -> bool:
        """Whether it has learned from measurements."""
        return self._booster is not None

    def train(self, groups: Sequence[Group]) -> None:
        """Learn from measured points, one group a task, afresh."""
        import xgboost

        used = [(features, costs) for features, costs in groups if len(set(costs.tolist())) > 1]
        if not used:
            return
        features = np.concatenate([features for features, _ in used])
        grades = np.concatenate([_grades(costs) for _, costs in used])
        tasks = np.repeat(np.arange(len(used)), [len(costs) for _, costs in used])
        self._trust = _TRUST * _slope([(self._estimates(features), np.log2(costs)) for features, costs in used])
        data = xgboost.DMatrix(features, label=grades, qid=tasks, base_margin=self._draft(features), nthread=1)
        self._booster = xgboost.train({**_PARAMETERS, "seed": self._seed}, data, _ROUNDS)

    def scores(self, features: Features) -> Floats:
        """[point]: the higher, the faster."""
        import xgboost

        draft = self._draft(features)
        if self._booster is None:
            return draft
        costs = self._booster.predict(xgboost.DMatrix(features, base_margin=draft, nthread=1), output_margin=True)
        return np.asarray(costs, np.float64)

    def _draft(self, features: Features) -> Floats:
        """Scores by the estimate."""
        return -self._trust * self._estimates(features)

    def _estimates(self, features: Features) -> Floats:
        if self._estimate is None:
            return np.zeros(len(features))
        return features[:, self._estimate].astype(np.float64)


def _slope(pairs: Sequence[tuple[Floats, Floats]]) -> float:
    """How much of a change of the estimate is one of the costs, from 0 to 1: least squares over the
    tasks, as if the estimate had also been right in _BEFORE points of some spread.
    """
    above = below = _BEFORE
    for estimates, costs in pairs:
        kept = np.isfinite(costs)
        x, y = estimates[kept] - estimates[kept].mean(), costs[kept] - costs[kept].mean()
        above, below = above + float(x @ y), below + float(x @ x)
    return min(max(above / below, 0.0), 1.0)


def _grades(costs: Floats) -> NDArray[np.float32]:
    """How good points are among those of their task, from 0 to _GRADES."""
    return np.asarray(np.round(_GRADES * costs.min() / costs), np.float32)
