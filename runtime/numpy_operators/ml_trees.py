# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees: TreeEnsemble, and TreeEnsembleRegressor and -Classifier before it.

All rows walk a tree at once. A branch compares a feature with a threshold, or tests whether it is a
member of a set; a NaN goes where the node says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.ml_features import TRANSFORMS, labelled, transformed
from vdla.support.tree_ensemble import Branch, TreeEnsemble, either, older_tree_ensemble, tree_ensemble

_COMPARE: Mapping[str, Callable[[Array, Array], Array]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
_MOST_TARGETS = 1 << 20
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _scores(ensemble: TreeEnsemble, x: Array, targets: int, aggregate: str) -> Array:
    """[N, targets]: the votes of all trees, aggregated."""
    if targets > _MOST_TARGETS:
        raise ValueError(f"targets must be at most {_MOST_TARGETS}, got {targets}")
    votes: list[list[list[float]]] = [[[] for _ in range(targets)] for _ in x]
    for root in ensemble.roots:
        for row, leaf in enumerate(_leaves(ensemble, x, root)):
            for target, weight in ensemble.leaves[leaf]:
                votes[row][target].append(weight)
    count = len(ensemble.roots)
    return np.array([[_aggregated(cast, aggregate, count) for cast in row] for row in votes]).reshape(-1, targets)


def _leaves(ensemble: TreeEnsemble, x: Array, root: int) -> Array:
    """The leaf of each row in a tree."""
    place = np.full(len(x), root)
    for _ in range(len(ensemble.branches) + 1):
        active = np.flatnonzero(place >= 0)
        if not active.size:
            return ~place
        for node in np.unique(place[active]):
            rows = active[place[active] == node]
            branch = ensemble.branches[int(node)]
            place[rows] = np.where(_holds(branch, x[rows, branch.feature]), branch.if_true, branch.if_false)
    raise ValueError("every walk through a tree must end, got one that comes back to a node")


def _holds(branch: Branch, values: Array) -> Array:
    """Whether rows take the true branch."""
    if branch.mode == "BRANCH_MEMBER":
        contained = np.isin(values, branch.members)
    else:
        contained = _COMPARE[branch.mode](values, branch.threshold)
    return np.where(np.isnan(values), branch.nan_is_true, contained)


def _aggregated(votes: Sequence[float], aggregate: str, trees: int) -> float:
    match aggregate:
        case "MIN":
            return min(votes, default=0.0)
        case "MAX":
            return max(votes, default=0.0)
        case "AVERAGE":
            return sum(votes) / trees
    return sum(votes)


def _tree_ensemble(attributes: Attributes, x: Array) -> tuple[Array]:
    aggregate = _AGGREGATES[attributes.get("aggregate_function", 1)]
    scores = _scores(tree_ensemble(attributes), x, attributes["n_targets"], aggregate)
    return (transformed(scores, TRANSFORMS[attributes.get("post_transform", 0)]).astype(x.dtype),)


def _regressor(attributes: Attributes, x: Array) -> tuple[Array]:
    ensemble, targets = older_tree_ensemble(attributes, "target"), attributes["n_targets"]
    scores = _scores(ensemble, x.astype(np.float32), targets, attributes.get("aggregate_function", "SUM"))
    base = either(attributes, "base_values")
    whole = scores + np.array(base) if base else scores
    return (transformed(whole, attributes.get("post_transform", "NONE")),)


def _classifier(attributes: Attributes, x: Array) -> tuple[Array, Array]:
    """Votes for one of two classes are the score of the second."""
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_int64s") or ()
    ensemble, base = older_tree_ensemble(attributes, "class"), either(attributes, "base_values")
    scores = _scores(ensemble, x.astype(np.float32), len(labels), "SUM")
    voted = set(attributes["class_ids"])
    transform = attributes.get("post_transform", "NONE")
    if len(labels) == 2 and len(voted) == 1:
        one = scores[:, [voted.pop()]] + (base[-1] if base else 0.0)
        second = transformed(one, transform)
        chosen = (one[:, 0] > (0.5 if transform == "NONE" else 0)).astype(np.int64)
        return labelled(attributes, chosen), np.concatenate([1 - second, second], 1)
    whole = scores + np.array(base) if len(base) == len(labels) else scores
    return labelled(attributes, whole.argmax(1)), transformed(whole, transform)


def _tree_leaves(
    attributes: Attributes, x: Array, feature: Array, threshold: Array, successor: Array, *nan_passes: Array
) -> tuple[Array]:
    """[N, trees]: where each row ends in each tree, by the tables of the compiler."""
    rows = np.arange(len(x))[:, None]
    places = np.tile(np.arange(attributes["trees"], dtype=np.int32), (len(x), 1))
    for _ in range(attributes["depth"]):
        values = x[rows, feature[places]]
        passes = values <= threshold[places]
        for passes_nan in nan_passes:
            passes |= np.isnan(values) & passes_nan[places]
        places = successor[places] + ~passes
    return (places.astype(np.int32),)


_DOMAIN = "ai.onnx.ml"
ML_TREES: Mapping[str, Function] = {
    f"{_DOMAIN}.TreeEnsemble": _tree_ensemble,
    f"{_DOMAIN}.TreeEnsembleClassifier": _classifier,
    f"{_DOMAIN}.TreeEnsembleRegressor": _regressor,
    "vdla.TreeLeaves": _tree_leaves,
}
