# SPDX-License-Identifier: Apache-2.0
"""Reductions of rows of quantised values, computed on their integers.

The place of the largest element is that of the largest integer. Sums of squares and of absolute
differences are exact in 32 bits, whatever computes them, so that the results of RMSNormalization
and of L1 distances do not depend on the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import NotIntegerError, QuantisedActivation, activation, parameters
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite

_MOST_TERMS = (1 << 31) // 255**2
"""The longest row whose squares have a sum of 31 bits."""


def reduce_rows(graph: Graph) -> Graph:
    """The graph with reductions of integers."""
    return rewrite(graph, (_place, _squares, _root_mean_square, _distances))


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


def _is_of_rows(graph: Graph, node: Node, source: str, most: int = _MOST_TERMS) -> bool:
    """Whether a node reduces the last dimension alone, of known and not too many elements."""
    kind, axes = graph.tensor(source), graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None or axes.size != 1 or not kind.static:
        return False
    return int(axes.item()) in (-1, len(kind.extents) - 1) and 0 < kind.extents[-1] <= most


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


# --- distances ------------------------------------------------------------------------------------


_UNCHANGED = ("Reshape", "Squeeze", "Unsqueeze")
_MOST_FAR = (1 << 31) // 255
"""The longest row whose absolute differences have a sum of 31 bits."""


def _distances(graph: Graph, node: Node) -> Replacement | None:
    """ReduceSum, ReduceMean or ReduceL1 of |x - c| along rows, each row of x beside all rows of a
    constant c, as DQ(vdla.QDistances(x, c)).
    """
    difference, matched = _differences(graph, node)
    if difference is None or not _is_of_rows(graph, node, difference.outputs[0], _MOST_FAR):
        return None
    first, second = difference.inputs
    rows, value = (second, first) if _constant_rows(graph, first) is None else (first, second)
    x, codes = _row_each(graph, value), _constant_rows(graph, rows)
    result = graph.tensor(node.outputs[0])
    if x is None or codes is None or result.dtype != "float32":
        return None
    integers, plain = _as_integers(x, codes), graph.tensor(x.name).extents
    shape = (*plain[:-1], len(codes))
    if integers is None or plain[-1] != integers.shape[-1] or prod(shape) != prod(result.extents):
        return None
    made = _Made(graph, node.outputs[0])
    terms = plain[-1] if node.op == "ReduceMean" else 1
    scale = made.constant(np.array(np.float64(x.scale) / terms, np.float32))
    far = made.add("DequantizeLinear", (made.distances(x, integers, shape), scale), shape)
    made.add("Reshape", (far, made.constant(np.array(result.extents, np.int64))), result.extents, node.outputs[0])
    return made.replacement(node, matched)


def _row_each(graph: Graph, name: str) -> QuantisedActivation | None:
    """The activation whose rows, one in each matrix, a value has."""
    kind, maker = graph.tensor(name), graph.producers.get(name)
    if not kind.static or len(kind.extents) < 2 or kind.extents[-2] != 1:
        return None
    if maker is not None and maker.op in _UNCHANGED:
        name = maker.inputs[0]
    if (x := _activation(graph, name)) is None:
        return None
    maker = graph.producers.get(x.name)
    if maker is not None and maker.op in _UNCHANGED and graph.tensor(maker.inputs[0]).extents[-1:] == kind.extents[-1:]:
        x = replace(x, name=maker.inputs[0])
    return x if graph.tensor(x.name).extents[-1:] == kind.extents[-1:] else None


def _constant_rows(graph: Graph, name: str) -> Array | None:
    """The rows [M, K] of a constant of one matrix, which may be quantised; None for others."""
    value, maker = graph.constant(name), graph.producers.get(name)
    if value is None and maker is not None and maker.op == "DequantizeLinear":
        stored, given = graph.constant(maker.inputs[0]), parameters(graph, maker)
        if stored is not None and given is not None and given.per_tensor:
            value = ((stored.astype(np.int64) - given.zero_point) * given.scale).astype(np.float32)
    if value is None or value.ndim < 2 or prod(value.shape[:-2]) != 1:
        return None
    return value.reshape(value.shape[-2:])


def _as_integers(x: QuantisedActivation, values: Array) -> Array | None:
    """Values in the integers of an activation; None unless they are some of these."""
    steps = np.rint(values / np.float64(x.scale))
    integers = steps + x.zero_point
    if not np.array_equal((steps * x.scale).astype(np.float32), values) or np.abs(integers + 0.5).max() > 128:
        return None
    return integers.astype(np.int8)


def _differences(graph: Graph, node: Node) -> tuple[Node | None, tuple[Node, ...]]:
    """The difference whose absolute values a node adds, and the nodes before it."""
    inner = graph.producers.get(node.inputs[0]) if node.op in ("ReduceL1", "ReduceMean", "ReduceSum") else None
    matched: tuple[Node, ...] = ()
    if inner is not None and inner.op == "Abs":
        matched, inner = (inner,), graph.producers.get(inner.inputs[0])
    elif node.op != "ReduceL1":
        return None, ()
    if inner is None or inner.op != "Sub" or any(graph.readers(part.outputs[0]) != 1 for part in (inner, *matched)):
        return None, ()
    return inner, (inner, *matched)


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

    def distances(self, x: QuantisedActivation, codes: Array, shape: tuple[int, ...]) -> str:
        """The distances of rows from others, in 32 bits."""
        name = self._fresh(TensorType("int32", shape))
        self.nodes.append(Node("vdla.QDistances", (x.name, self.constant(codes)), (name,), {}))
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
