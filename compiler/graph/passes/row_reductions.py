# SPDX-License-Identifier: Apache-2.0
"""Reductions of rows of quantised values, computed on their integers.

The place of the largest element is that of the largest integer. Sums of squares are exact in 32
bits, whatever computes them, so that the results of RMSNormalization do not depend on the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import NotIntegerError, QuantisedActivation, activation
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite

_MOST_TERMS = (1 << 31) // 255**2
"""The longest row whose squares have a sum of 31 bits."""


def reduce_rows(graph: Graph) -> Graph:
    """The graph with reductions of integers."""
    return rewrite(graph, (_place, _squares, _root_mean_square))


def _place(graph: Graph, node: Node) -> Replacement | None:
    """ArgMax(DQ(x)) = ArgMax(x), and so for ArgMin."""
    if node.op not in ("ArgMax", "ArgMin") or (x := _activation(graph, node.inputs[0])) is None:
        return None
    return Replacement((replace(node, inputs=(x.name,)),))


def _activation(graph: Graph, name: str) -> QuantisedActivation | None:
    """The int8 activation that a float value is; None for others."""
    maker = graph.producers.get(name)
    if maker is None or maker.op != "DequantizeLinear" or graph.constant(maker.inputs[0]) is not None:
        return None
    try:
        return activation(graph, name)
    except NotIntegerError:
        return None


# --- squares --------------------------------------------------------------------------------------


def _squares(graph: Graph, node: Node) -> Replacement | None:
    """ReduceMean, ReduceSum or ReduceSumSquare of the squares of a row as DQ(vdla.QSquares(x))."""
    source, squared = _squared(graph, node)
    x = _activation(graph, source) if source else None
    if x is None or not _is_of_rows(graph, node, x.name):
        return None
    terms = graph.tensor(x.name).extents[-1] if node.op == "ReduceMean" else 1
    made = _Made(graph, node.outputs[0])
    kind = graph.tensor(node.outputs[0])
    sums = made.squares(x, kind.extents, keepdims=int(node.attribute("keepdims")))
    made.mean(sums, x, terms, node.outputs[0], kind.extents)
    return made.replacement(node, squared)


def _squared(graph: Graph, node: Node) -> tuple[str, tuple[Node, ...]]:
    """The value of whose squares a node is the sum or the mean, and the node that squares it."""
    if node.op == "ReduceSumSquare":
        return node.inputs[0], ()
    square = graph.producers.get(node.inputs[0]) if node.op in ("ReduceMean", "ReduceSum") else None
    if square is None or graph.readers(node.inputs[0]) != 1:
        return "", ()
    if square.op == "Mul" and square.inputs[0] == square.inputs[1]:
        return square.inputs[0], (square,)
    power = graph.constant(square.inputs[1]) if square.op == "Pow" else None
    return (square.inputs[0], (square,)) if power is not None and power.size == 1 and power.item() == 2 else ("", ())


def _is_of_rows(graph: Graph, node: Node, source: str) -> bool:
    """Whether a node reduces the last dimension alone, of known and not too many elements."""
    kind, axes = graph.tensor(source), graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None or axes.size != 1 or not kind.static:
        return False
    return int(axes.item()) in (-1, len(kind.extents) - 1) and 0 < kind.extents[-1] <= _MOST_TERMS


def _root_mean_square(graph: Graph, node: Node) -> Replacement | None:
    """RMSNormalization(DQ(x)) by the exact sum of squares of each row."""
    x = _activation(graph, node.inputs[0]) if node.op == "RMSNormalization" else None
    kind = graph.tensor(x.name) if x is not None else None
    if x is None or kind is None or not kind.static or int(node.attribute("axis")) not in (-1, len(kind.extents) - 1):
        return None
    if not 0 < kind.extents[-1] <= _MOST_TERMS or graph.tensor(node.outputs[0]).dtype != "float32":
        return None
    rows, made = (*kind.extents[:-1], 1), _Made(graph, node.outputs[0])
    sums = made.squares(x, rows, keepdims=1)
    mean = made.mean(sums, x, kind.extents[-1], "", rows)
    least = made.constant(np.array(node.attribute("epsilon"), np.float32))
    root = made.add("Sqrt", (made.add("Add", (mean, least), rows),), rows)
    normal = made.add("Div", (node.inputs[0], root), kind.extents)
    made.add("Mul", (normal, node.inputs[1]), kind.extents, node.outputs[0])
    return made.replacement(node, ())


class _Made:
    """The nodes in place of one whose result is `base`."""

    def __init__(self, graph: Graph, base: str) -> None:
        self.graph, self.base = graph, base
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, TensorType] = {}

    def add(self, op: str, inputs: tuple[str, ...], shape: tuple[int, ...], name: str = "", **more: Any) -> str:  # noqa: ANN401  attributes
        """A node of floats, whose result gets a name."""
        name = name or self._fresh(TensorType("float32", shape))
        self.nodes.append(Node(op, inputs, (name,), more))
        return name

    def squares(self, x: QuantisedActivation, shape: tuple[int, ...], *, keepdims: int) -> str:
        """The sums of squares of rows, in 32 bits."""
        name = self._fresh(TensorType("int32", shape))
        attributes: Mapping[str, Any] = {"x_zero_point": x.zero_point, "keepdims": keepdims}
        self.nodes.append(Node("vdla.QSquares", (x.name,), (name,), attributes))
        return name

    def mean(self, sums: str, x: QuantisedActivation, terms: int, name: str, shape: tuple[int, ...]) -> str:
        """Sums of squares as floats, over the number of terms."""
        scale = self.constant(np.array(np.float64(x.scale) ** 2 / terms, np.float32))
        return self.add("DequantizeLinear", (sums, scale), shape, name)

    def constant(self, value: Array) -> str:
        """A constant, which gets a name."""
        name = self._fresh(TensorType(value.dtype.name, value.shape))
        self.constants[name] = value
        return name

    def _fresh(self, kind: TensorType) -> str:
        name = fresh_name(self.graph, f"{self.base}_rows{len(self.types)}")
        self.types[name] = kind
        return name

    def replacement(self, node: Node, matched: tuple[Node, ...]) -> Replacement:
        """All of it; the last node has the name of the one that it replaces."""
        *inner, last = self.nodes
        nodes = (*inner, replace(last, name=node.name))
        return Replacement(nodes, self.constants, dict(self.types), matched=matched)
