# SPDX-License-Identifier: Apache-2.0
"""Rules between the attributes of models of tables, and the columns of their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter

from vdla.compiler.graph.onnx.node_operands import NodeOperands


def _columns(at: NodeOperands) -> int | None:
    """The columns of the data, if they are known."""
    data = at.shape(0)
    last = data[-1] if data else None
    return last if isinstance(last, int) else None


def _scaler(at: NodeOperands) -> str | None:
    columns = _columns(at)
    for name in ("offset", "scale"):
        count = len(at.node.attributes.get(name, ()))
        if columns is not None and count not in (0, 1, columns):
            return f"{name} must have 1 number or {columns}, as the data has columns, got {count}"
    return None


def _linear(at: NodeOperands) -> str | None:
    columns, coefficients = _columns(at), len(at.node.attributes.get("coefficients", ()))
    if columns is None or (columns and coefficients % columns == 0):
        return None
    return f"coefficients must be so many for each of the {columns} columns of the data, got {coefficients}"


def _vectors(at: NodeOperands) -> str | None:
    columns, vectors = _columns(at), at.node.attributes.get("support_vectors", ())
    count = at.whole("n_supports", 0)
    if columns is None or not count or len(vectors) == count * columns:
        return None
    return f"support_vectors must be {count} of {columns} columns, got {len(vectors)} numbers"


_OF_NODES = ("nodes_treeids", "nodes_nodeids", "nodes_modes", "nodes_featureids", "nodes_truenodeids",
             "nodes_falsenodeids")  # fmt: skip


def _trees(at: NodeOperands) -> str | None:
    """Branches must lead to nodes of their tree, and never back; features must be columns."""
    columns = [at.node.attributes.get(name, ()) for name in _OF_NODES]
    if len(set(map(len, columns))) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in zip(_OF_NODES, columns, strict=True))
        return f"attributes of nodes must have one length, got {lengths}"
    rows = list(zip(*columns, strict=True))
    known, width = {row[:2] for row in rows}, _columns(at)
    after: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for tree, node, mode, feature, *targets in rows:
        if mode in ("LEAF", b"LEAF"):
            continue
        after[tree, node] = [(tree, target) for target in targets]
        where = f"node {node} of tree {tree}"
        missing = [target for target in targets if (tree, target) not in known]
        if missing:
            return f"branches must lead to nodes of their tree, got node {missing[0]} after {where}"
        if width is not None and not 0 <= feature < width:
            return f"features must be columns of the data, 0 to {width - 1}, got {feature} at {where}"
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        tree, node = error.args[1][0]
        return f"branches must not lead back, got node {node} of tree {tree} after itself"
    return None


_LINEAR = ("ai.onnx.ml.LinearClassifier", "ai.onnx.ml.LinearRegressor")
_TREES = ("ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.TreeEnsembleRegressor")

TABULAR_RULES: Mapping[str, Callable[[NodeOperands], str | None]] = {
    **dict.fromkeys(_LINEAR, _linear),
    **dict.fromkeys(_TREES, _trees),
    "ai.onnx.ml.SVMRegressor": _vectors,
    "ai.onnx.ml.Scaler": _scaler,
}
"""A rule an operator: the sentence for a node that breaks it, or None."""
