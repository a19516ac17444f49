# SPDX-License-Identifier: Apache-2.0
"""The cost model: before and after training, on tasks of different sizes, the same every time."""

from __future__ import annotations

import numpy as np

from vdla.compiler.tune.cost_model import CostModel

NAMES = ("estimate", "a", "b")


def group(rng: np.random.Generator, scale: float, count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Points whose costs are what the estimate says, but double where `a` is high."""
    features = rng.uniform(0, 1, (count, 3)).astype(np.float32)
    costs = scale * 2 ** (features[:, 0] + (features[:, 1] > 0.5))
    features[:, 0] += np.float32(np.log2(scale))
    return features, costs.astype(np.float64)


def agreement(scores: np.ndarray, costs: np.ndarray) -> float:
    """Spearman's rank correlation of scores and falling costs."""
    return float(np.corrcoef(scores.argsort().argsort(), (-costs).argsort().argsort())[0, 1])


def test_before_training_scores_are_in_the_order_of_the_estimate() -> None:
    features, _ = group(np.random.default_rng(0), 1.0)
    model = CostModel(NAMES)
    assert not model.is_trained
    assert np.array_equal(np.argsort(-model.scores(features)), np.argsort(features[:, 0]))
    assert not CostModel(("a", "b")).scores(features[:, 1:]).any()


def test_training_mends_the_estimate_also_from_tasks_of_another_size() -> None:
    rng = np.random.default_rng(1)
    model = CostModel(NAMES)
    features, costs = group(rng, 1.0)
    before = agreement(model.scores(features), costs)
    model.train([group(rng, 1000.0), group(rng, 7.0)])
    after = agreement(model.scores(features), costs)
    assert before < 0.6
    assert after > 0.9


def test_failed_points_rank_last() -> None:
    rng = np.random.default_rng(2)
    features, costs = group(rng, 1.0)
    costs[features[:, 2] > 0.6] = np.inf
    model = CostModel(NAMES)
    model.train([(features, costs)])
    fresh, _ = group(rng, 1.0)
    scores = model.scores(fresh)
    good, bad = scores[fresh[:, 2] < 0.55], scores[fresh[:, 2] > 0.65]
    assert np.quantile(bad, 0.9) < np.quantile(good, 0.1)


def test_the_same_data_give_the_same_model() -> None:
    features, costs = group(np.random.default_rng(3), 1.0)
    first, second = CostModel(NAMES, 5), CostModel(NAMES, 5)
    first.train([(features, costs)])
    second.train([(features, costs)])
    assert np.array_equal(first.scores(features), second.scores(features))


def test_points_of_one_cost_teach_nothing() -> None:
    features, costs = group(np.random.default_rng(4), 1.0)
    model = CostModel(NAMES)
    model.train([(features, np.full_like(costs, 3.0)), (features[:0], costs[:0])])
    assert not model.is_trained
