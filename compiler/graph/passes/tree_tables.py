# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees as the tables of vdla.TreeLeaves.

Every branch becomes a comparison by "at most": a strict one has the next smaller threshold, one in
the other direction has its successors swapped, equality is two comparisons, and membership of a set
is a chain of equalities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.graph import Array
from vdla.support.tree_ensemble import Branch, TreeEnsemble

MOST_STEPS = 256  # of a walk; each is a loop of the kernel
_CHAINS = ("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_Key = tuple[int, int]  # a branch, or ~n for leaf n, and which of its comparisons


@dataclass(frozen=True, slots=True)
class TreeTables:
    """The inputs of vdla.TreeLeaves behind the rows, the length of its walks, and the leaf at each
    place where a walk may end (-1 elsewhere).
    """

    feature: Array
    threshold: Array
    successor: Array
    nan_passes: Array
    depth: int
    leaf: Array


@dataclass(frozen=True, slots=True)
class _Comparison:
    feature: int
    threshold: float
    nan_passes: bool
    passed: _Key
    failed: _Key


def tree_tables(ensemble: TreeEnsemble, dtype: str) -> TreeTables | None:
    """The tables for rows of a dtype; None for an ensemble without trees, with walks too long or
    endless, or with NaN thresholds.
    """
    thresholds = [branch.threshold for branch in ensemble.branches if branch.mode != "BRANCH_MEMBER"]
    if not ensemble.roots or np.isnan(thresholds).any():
        return None
    places: list[_Key] = [(root, 0) for root in ensemble.roots]
    comparisons: dict[_Key, _Comparison] = {}
    successor: dict[_Key, int] = {}
    level, depth = _once(places), 0
    while any(branch >= 0 for branch, _ in level):
        if depth == MOST_STEPS:
            return None
        after: list[_Key] = []
        for key in level:
            if key[0] >= 0 and key not in comparisons:
                comparisons[key] = _comparison(ensemble.branches[key[0]], key, dtype)
            pair = (comparisons[key].passed, comparisons[key].failed) if key[0] >= 0 else (key, key)
            if key not in successor:
                successor[key] = len(places)
                places.extend(pair)
            after.extend(pair)
        level, depth = _once(after), depth + 1
    none = _Comparison(0, 0.0, False, (0, 0), (0, 0))
    rows = [comparisons.get(key, none) for key in places]
    return TreeTables(
        feature=np.array([row.feature for row in rows], np.int32),
        threshold=np.array([row.threshold for row in rows], dtype),
        successor=np.array([successor.get(key, 0) for key in places], np.int32),
        nan_passes=np.array([row.nan_passes for row in rows], np.bool_),
        depth=depth,
        leaf=np.array([~branch if branch < 0 else -1 for branch, _ in places], np.int64),
    )


def _once(keys: Iterable[_Key]) -> Sequence[_Key]:
    return list(dict.fromkeys(keys))


def _comparison(branch: Branch, key: _Key, dtype: str) -> _Comparison:
    """Comparison number `key[1]` of a branch."""
    if branch.mode in _CHAINS:
        return _equality(branch, key, dtype)
    true, false, passes = (branch.if_true, 0), (branch.if_false, 0), branch.nan_is_true
    threshold = _rounded(branch.threshold, dtype)
    if branch.mode in ("BRANCH_LT", "BRANCH_GTE"):
        threshold = _below(threshold, dtype)
    if branch.mode in ("BRANCH_GT", "BRANCH_GTE"):
        true, false, passes = false, true, not passes
    return _Comparison(branch.feature, threshold, passes, true, false)


def _equality(branch: Branch, key: _Key, dtype: str) -> _Comparison:
    """A member of a chain: at most x, then at most the number below x, which must fail."""
    numbers = branch.members if branch.mode == "BRANCH_MEMBER" else np.array([branch.threshold])
    equal, unequal, passes = (branch.if_true, 0), (branch.if_false, 0), branch.nan_is_true
    if branch.mode == "BRANCH_NEQ":
        equal, unequal, passes = unequal, equal, not passes
    if not len(numbers):
        return _Comparison(branch.feature, float("nan"), passes, equal, unequal)
    index, part = key
    threshold = _rounded(numbers[part // 2], dtype)
    following = (index, part - part % 2 + 2) if part // 2 + 1 < len(numbers) else unequal
    if part % 2:
        return _Comparison(branch.feature, _below(threshold, dtype), False, following, equal)
    return _Comparison(branch.feature, threshold, passes and not part, (index, part + 1), following)


def _rounded(number: float, dtype: str) -> float:
    return float(np.asarray(number, dtype))


def _below(threshold: float, dtype: str) -> float:
    """The greatest number below another one; NaN, which fails all comparisons, below the least."""
    if threshold == -np.inf:
        return float("nan")
    return float(np.nextafter(*np.array((threshold, -np.inf), dtype)))
