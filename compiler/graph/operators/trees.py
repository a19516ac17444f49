# SPDX-License-Identifier: Apache-2.0
"""Walks through decision trees: vdla.TreeLeaves gives the leaf of each row in each tree.

Branches are tables: a walk goes from place p to `successor[p]` where the feature of p is at most
its threshold, else to the place behind it. A leaf goes back to itself, from either of two places,
so that all walks have the same length and no step depends on the outcome of a branch. The first
places are the roots.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall


def _tree_leaves(call: NodeCall) -> te.Tensor:
    """[N, trees] from rows [N, features]: inputs are feature, threshold, successor, and where the
    node has it, whether a NaN passes as at most the threshold.
    """
    x, feature, threshold, successor = (call.tensor(n) for n in range(4))
    nan_passes = call.optional(4)

    def after(row: te.Value, place: te.Value) -> te.Value:
        value = x[row, feature[place]]
        passes = value <= threshold[place]
        if nan_passes is not None:
            passes = passes | ((value != value) & nan_passes[place])
        return successor[place] + te.select(passes, te.const(0, "int32"), te.const(1, "int32"))

    depth, name = int(call.attribute("depth")), call.name()
    places: te.Tensor = te.compute(call.extents, lambda row, tree: tree + 0, f"{name}_0" if depth else name)
    for step in range(1, depth + 1):
        before = places
        places = te.compute(
            call.extents,
            lambda row, tree, before=before: after(row, before[row, tree]),
            name if step == depth else f"{name}_{step}",
        )
    return places


TREES = (
    OperatorRecord(
        name="vdla.TreeLeaves",
        fusion=FusionClass.OPAQUE,
        expression=_tree_leaves,
        attributes={"depth": int, "trees": int},
    ),
)
