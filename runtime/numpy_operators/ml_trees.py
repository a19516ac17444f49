"""Ensembles of decision trees: TreeEnsemble, and TreeEnsembleRegressor and -Classifier before it.

All rows walk a tree at once. A branch compares a feature with a threshold, or tests whether it is a
member of a set; a NaN goes where the node says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.ml_features import TRANSFORMS, labelled, transformed

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_COMPARE: Mapping[str, Callable[[Array, Array], Array]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_Vote = tuple[int, float]  # a target and a weight


@dataclass(frozen=True)
class _Branch:
    """An interior node; its successors are other branches, or leaves: their votes."""

    feature: int
    mode: str
    threshold: Array
    members: Array
    nan_is_true: bool
    if_true: int
    if_false: int


@dataclass(frozen=True)
class _Ensemble:
    """Branches, the votes of leaves (at negative numbers: ~n), and the roots of the trees."""

    branches: Sequence[_Branch]
    leaves: Sequence[Sequence[_Vote]]
    roots: Sequence[int]

    def scores(self, x: Array, targets: int, aggregate: str) -> Array:
        """[N, targets]: the votes of all trees, aggregated."""
        votes: list[list[list[float]]] = [[[] for _ in range(targets)] for _ in x]
        for root in self.roots:
            for row, leaf in enumerate(self._leaves(x, root)):
                for target, weight in self.leaves[leaf]:
                    votes[row][target].append(weight)
        count = len(self.roots)
        return np.array([[_aggregated(found, aggregate, count) for found in row] for row in votes]).reshape(-1, targets)

    def _leaves(self, x: Array, root: int) -> Array:
        """The leaf of each row in a tree."""
        place = np.full(len(x), root)
        while (active := np.flatnonzero(place >= 0)).size:
            for node in np.unique(place[active]):
                rows = active[place[active] == node]
                branch = self.branches[int(node)]
                place[rows] = np.where(_holds(branch, x[rows, branch.feature]), branch.if_true, branch.if_false)
        return ~place


def _holds(branch: _Branch, values: Array) -> Array:
    """Whether rows take the true branch."""
    if branch.mode == "BRANCH_MEMBER":
        found = np.isin(values, branch.members)
    else:
        found = _COMPARE[branch.mode](values, branch.threshold)
    return np.where(np.isnan(values), branch.nan_is_true, found)


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
    """Members of sets are listed in the order of their nodes, NaN behind each set."""
    count = len(attributes["nodes_featureids"])
    tracks = attributes.get("nodes_missing_value_tracks_true") or (0,) * count
    members = iter(_sets(attributes.get("membership_values")))
    none = np.zeros(0)
    branches = []
    for n in range(count):
        mode = _MODES[int(attributes["nodes_modes"][n])]
        branches.append(
            _Branch(
                feature=attributes["nodes_featureids"][n],
                mode=mode,
                threshold=attributes["nodes_splits"][n],
                members=next(members) if mode == "BRANCH_MEMBER" else none,
                nan_is_true=bool(tracks[n]),
                if_true=_successor(attributes["nodes_truenodeids"][n], attributes["nodes_trueleafs"][n]),
                if_false=_successor(attributes["nodes_falsenodeids"][n], attributes["nodes_falseleafs"][n]),
            )
        )
    weights = attributes["leaf_weights"]
    leaves = [[(target, float(weight))] for target, weight in zip(attributes["leaf_targetids"], weights, strict=True)]
    ensemble = _Ensemble(branches, leaves, attributes["tree_roots"])
    scores = ensemble.scores(x, attributes["n_targets"], _AGGREGATES[attributes.get("aggregate_function", 1)])
    return (transformed(scores, TRANSFORMS[attributes.get("post_transform", 0)]).astype(x.dtype),)


def _successor(place: int, is_leaf: int) -> int:
    return ~place if is_leaf else place


def _sets(values: Array | None) -> list[Array]:
    """The sets between NaN."""
    if values is None:
        return []
    ends = np.flatnonzero(np.isnan(values))
    return [part[~np.isnan(part)] for part in np.split(values, ends)]


# --- the operators before TreeEnsemble ------------------------------------------------------------


def _either(attributes: Attributes, name: str) -> Sequence[float]:
    """A list that may be a tensor instead."""
    entry = attributes.get(name)
    return tuple(entry) if entry else tuple(attributes.get(f"{name}_as_tensor", ()))


def _old_ensemble(attributes: Attributes, kind: str) -> _Ensemble:
    """Nodes are named by tree and number; votes belong to leaves."""
    names = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    place = {name: n for n, name in enumerate(names)}
    modes, splits = attributes["nodes_modes"], _either(attributes, "nodes_values")
    tracks = attributes.get("nodes_missing_value_tracks_true") or (0,) * len(names)
    voters = zip(attributes[f"{kind}_treeids"], attributes[f"{kind}_nodeids"], strict=True)
    leaves: list[list[_Vote]] = [[] for _ in names]
    for name, target, weight in zip(
        voters, attributes[f"{kind}_ids"], _either(attributes, f"{kind}_weights"), strict=True
    ):
        leaves[place[name]].append((target, weight))

    def successor(tree: int, node: int) -> int:
        found = place[tree, node]
        return ~found if modes[found] == "LEAF" else found

    branches, children = [], set()
    for n, (tree, _) in enumerate(names):
        is_leaf = modes[n] == "LEAF"
        ends = (attributes["nodes_truenodeids"][n], attributes["nodes_falsenodeids"][n])
        after = (~n, ~n) if is_leaf else (successor(tree, ends[0]), successor(tree, ends[1]))
        children |= set() if is_leaf else {place[tree, ends[0]], place[tree, ends[1]]}
        branches.append(
            _Branch(
                feature=attributes["nodes_featureids"][n],
                mode="BRANCH_LEQ" if is_leaf else modes[n],
                threshold=np.asarray(splits[n], np.float32),
                members=np.zeros(0),
                nan_is_true=bool(tracks[n]),
                if_true=after[0],
                if_false=after[1],
            )
        )
    return _Ensemble(branches, leaves, [n for n in range(len(names)) if n not in children])


def _regressor(attributes: Attributes, x: Array) -> tuple[Array]:
    ensemble, targets = _old_ensemble(attributes, "target"), attributes["n_targets"]
    scores = ensemble.scores(x.astype(np.float32), targets, attributes.get("aggregate_function", "SUM"))
    base = _either(attributes, "base_values")
    whole = scores + np.array(base) if base else scores
    return (transformed(whole, attributes.get("post_transform", "NONE")),)


def _classifier(attributes: Attributes, x: Array) -> tuple[Array, Array]:
    """Votes for one of two classes are the score of the second."""
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_int64s") or ()
    ensemble, base = _old_ensemble(attributes, "class"), _either(attributes, "base_values")
    scores = ensemble.scores(x.astype(np.float32), len(labels), "SUM")
    voted = set(attributes["class_ids"])
    transform = attributes.get("post_transform", "NONE")
    if len(labels) == 2 and len(voted) == 1:
        one = scores[:, [voted.pop()]] + (base[-1] if base else 0.0)
        second = transformed(one, transform)
        chosen = (one[:, 0] > (0.5 if transform == "NONE" else 0)).astype(np.int64)
        return labelled(attributes, chosen), np.concatenate([1 - second, second], 1)
    whole = scores + np.array(base) if len(base) == len(labels) else scores
    return labelled(attributes, whole.argmax(1)), transformed(whole, transform)


_DOMAIN = "ai.onnx.ml"
ML_TREES: Mapping[str, Function] = {
    f"{_DOMAIN}.TreeEnsemble": _tree_ensemble,
    f"{_DOMAIN}.TreeEnsembleClassifier": _classifier,
    f"{_DOMAIN}.TreeEnsembleRegressor": _regressor,
}
