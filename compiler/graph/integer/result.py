# SPDX-License-Identifier: Apache-2.0
"""The quantised result of a float operator: Q(Clip(Relu(op(...)))).

Relu and Clip become bounds of the quantised result: rounding is monotone, so clipping before and
after it is the same. So does the arithmetic in which models of QONNX round before they quantise;
an integer operator rounds in its own way, which differs from theirs halfway between two integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node
from vdla.compiler.graph.integer.affine import decline, parameters, quantise
from vdla.compiler.graph.rewriting import Replacement

_LOW, _HIGH = -128, 127


@dataclass(frozen=True, eq=False)
class QuantisedResult:
    """`value` is the float result of an operator; `bounds` are those of the int8 result.

    `nodes` are the nodes from `value` to the QuantizeLinear, which is the last.
    """

    graph: Graph
    value: str
    scale: np.float32
    zero_point: int
    bounds: tuple[int, int]
    nodes: tuple[Node, ...]

    @property
    def name(self) -> str:
        """The int8 result."""
        return self.nodes[-1].outputs[0]

    @property
    def producer(self) -> Node | None:
        """The node that computes the float result."""
        return self.graph.producers.get(self.value)

    @property
    def attributes(self) -> dict[str, int]:
        """The attributes of the requantisation: the zero point and the bounds of the result."""
        low, high = self.bounds
        return {"y_zero_point": self.zero_point, "low": low, "high": high}

    def from_scale(self, scale: Array | np.floating[Any]) -> Array:
        """A scale of sums over that of the result, in float32."""
        return np.asarray(np.float32(scale) / self.scale, np.float32)

    def becomes(
        self,
        op: str,
        inputs: tuple[str, ...],
        attributes: Mapping[str, Any],
        replaced: tuple[Node, ...],
        made: Replacement | None = None,
    ) -> Replacement:
        """An integer operator in place of the QuantizeLinear; `made` has its constants."""
        name = next((node.name for node in replaced if node.name), "")
        node = Node(op, inputs, (self.name,), {**attributes, **self.attributes}, name)
        extra = made or Replacement()
        return Replacement((*extra.nodes, node), extra.constants, extra.types, matched=(*replaced, *self.nodes[:-1]))


def quantised_result(graph: Graph, node: Node) -> QuantisedResult | None:
    """The result that a QuantizeLinear to int8 makes, without Relu and Clip before it."""
    if node.op != "QuantizeLinear" or graph.tensor(node.outputs[0]).dtype != "int8":
        return None
    quantisation = parameters(graph, node)
    if quantisation is None or not quantisation.per_tensor:
        return None
    scale, zero_point = quantisation.scale[0], int(quantisation.zero_point[0])
    result = QuantisedResult(graph, node.inputs[0], scale, zero_point, (_LOW, _HIGH), (node,))
    while (before := _clipped(result) or _rounded(result)) is not None:
        result = before
    return result


def _clipped(result: QuantisedResult) -> QuantisedResult | None:
    """The result before the Relu or Clip that computes its value."""
    graph, node = result.graph, result.producer
    if node is None or node.op not in ("Relu", "Clip") or graph.readers(result.value) != 1:
        return None
    limits = _clip_limits(graph, node)
    if limits is None:
        return None
    low, high = (None if x is None else int(quantise(x, result.scale, result.zero_point)) for x in limits)
    before_low, before_high = result.bounds
    bounds = (
        before_low if low is None else min(max(low, before_low), before_high),
        before_high if high is None else min(max(high, before_low), before_high),
    )
    return replace(result, value=node.inputs[0], bounds=bounds, nodes=(node, *result.nodes))


_ROUNDED = ("Div", "Add", "Clip", "Round", "Sub", "Mul")


def _rounded(result: QuantisedResult) -> QuantisedResult | None:
    """The result before (Round(Clip(x / scale + zero)) - zero) * scale, with the result's scale."""
    graph, value = result.graph, result.value
    nodes: list[Node] = []
    for op in reversed(_ROUNDED):
        node = graph.producers.get(value)
        if node is None or node.op != op or graph.readers(value) != 1:
            return None
        nodes.insert(0, node)
        value = node.inputs[0]
    scales, zeros = ([graph.constant(nodes[place].inputs[1]) for place in places] for places in ((0, 5), (1, 4)))
    limits = [graph.constant(name) for name in nodes[2].inputs[1:]]
    constants = [float(x.reshape(())) for x in (*scales, *zeros, *limits) if x is not None and x.size == 1]
    if len(constants) != 6 or not np.isfinite(constants).all() or not constants[2].is_integer():
        return None
    if set(constants[:2]) != {float(result.scale)} or constants[2] != constants[3]:
        return None
    shift = result.zero_point - int(constants[2])
    low, high = (min(max(round(limit) + shift, _LOW), _HIGH) for limit in constants[4:])
    bounds = max(low, result.bounds[0]), min(high, result.bounds[1])
    return replace(result, value=value, bounds=bounds, nodes=(*nodes, *result.nodes))


def _clip_limits(graph: Graph, node: Node) -> tuple[Array | None, Array | None] | None:
    """The constant limits of a Relu or a Clip."""
    if node.op == "Relu":
        return np.zeros((), np.float32), None
    limits: list[Array | None] = [None, None]
    for i, name in enumerate(node.inputs[1:3]):
        if name:
            value = graph.constant(name)
            if value is None or value.size != 1 or not np.isfinite(value).all():
                return None
            limits[i] = value.reshape(())
    return limits[0], limits[1]


def sole(graph: Graph, node: Node) -> None:
    """Refuses a node whose float result has other readers."""
    if graph.readers(node.outputs[0]) != 1:
        decline(f"have a float result that only a QuantizeLinear reads, got {graph.readers(node.outputs[0])} readers")
