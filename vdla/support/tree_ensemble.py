# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees, from the attributes of ONNX's TreeEnsemble and those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Attributes = Mapping[str, Any]
Vote = tuple[int, float]  # a target and a weight
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")


@dataclass(frozen=True, slots=True)
class Branch:
    """An interior node; its successors are other branches, or leaves: ~n is leaf n.

    A branch compares a feature with a threshold, or tests whether it is a member of a set; a NaN
    takes the true branch if `nan_is_true`.
    """

    feature: int
    mode: str
    threshold: Any  # a scalar of the type in which it is compared
    members: Array
    nan_is_true: bool
    if_true: int
    if_false: int


@dataclass(frozen=True, slots=True)
class TreeEnsemble:
    """Branches, the votes of leaves, and the roots of the trees, which are branches or leaves."""

    branches: Sequence[Branch]
    leaves: Sequence[Sequence[Vote]]
    roots: Sequence[int]


def tree_ensemble(attributes: Attributes) -> TreeEnsemble:
    """Of a TreeEnsemble, where sets of members are listed in the order of their nodes, NaN behind
    each.
    """
    count = len(attributes["nodes_featureids"])
    tracks = attributes.get("nodes_missing_value_tracks_true") or (0,) * count
    members = iter(_sets(attributes.get("membership_values")))
    none = np.zeros(0)
    branches = []
    for n in range(count):
        mode = _MODES[int(attributes["nodes_modes"][n])]
        branches.append(
            Branch(
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
    return TreeEnsemble(branches, leaves, attributes["tree_roots"])


def _successor(place: int, is_leaf: int) -> int:
    return ~place if is_leaf else place


def _sets(values: Array | None) -> list[Array]:
    """The sets between NaN."""
    if values is None:
        return []
    ends = np.flatnonzero(np.isnan(values))
    return [part[~np.isnan(part)] for part in np.split(values, ends)]


def older_tree_ensemble(attributes: Attributes, kind: str) -> TreeEnsemble:
    """Of a TreeEnsembleRegressor (`kind` "target") or -Classifier ("class").

    Nodes are named by tree and number; votes belong to leaves.
    """
    names = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    place = {name: n for n, name in enumerate(names)}
    modes, splits = attributes["nodes_modes"], either(attributes, "nodes_values")
    tracks = attributes.get("nodes_missing_value_tracks_true") or (0,) * len(names)
    voters = zip(attributes[f"{kind}_treeids"], attributes[f"{kind}_nodeids"], strict=True)
    leaves: list[list[Vote]] = [[] for _ in names]
    for name, target, weight in zip(
        voters, attributes[f"{kind}_ids"], either(attributes, f"{kind}_weights"), strict=True
    ):
        leaves[place[name]].append((target, weight))

    def successor(tree: int, node: int) -> int:
        n = place[tree, node]
        return ~n if modes[n] == "LEAF" else n

    branches, children = [], set()
    for n, (tree, _) in enumerate(names):
        is_leaf = modes[n] == "LEAF"
        ends = (attributes["nodes_truenodeids"][n], attributes["nodes_falsenodeids"][n])
        after = (~n, ~n) if is_leaf else (successor(tree, ends[0]), successor(tree, ends[1]))
        children |= set() if is_leaf else {place[tree, ends[0]], place[tree, ends[1]]}
        branches.append(
            Branch(
                feature=attributes["nodes_featureids"][n],
                mode="BRANCH_LEQ" if is_leaf else modes[n],
                threshold=np.asarray(splits[n], np.float32)[()],
                members=np.zeros(0),
                nan_is_true=bool(tracks[n]),
                if_true=after[0],
                if_false=after[1],
            )
        )
    roots = [~n if modes[n] == "LEAF" else n for n in range(len(names)) if n not in children]
    return TreeEnsemble(branches, leaves, roots)


def either(attributes: Attributes, name: str) -> Sequence[float]:
    """A list that may be a tensor instead."""
    listed = attributes.get(name)
    return tuple(listed) if listed else tuple(attributes.get(f"{name}_as_tensor", ()))
