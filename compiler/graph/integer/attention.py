# SPDX-License-Identifier: Apache-2.0
"""Attention between quantised values as `vdla.QAttention`, whose scores have 8 bits.

The range of scores is no part of a quantised graph of ONNX: a node has the scale of its scores as
the hint `SCORE_SCALE`, which a file keeps as metadata of the node.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from vdla.compiler.graph.attributes import HINT
from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import NotIntegerError, activation, decline, multipliers
from vdla.compiler.graph.integer.result import QuantisedResult, quantised_result
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite
from vdla.compiler.operators.definitions import softmax_factor
from vdla.compiler.operators.definitions.row_softmax import FACTOR_BITS

SCORE_SCALE = f"{HINT}score_scale"
"""The real number that a step of an int8 score stands for."""
SHARES = 254
"""The steps of a share of 1."""
_MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = 3, 4, 5, 6


def fuse_attention(graph: Graph) -> Graph:
    """The graph with Attention on integers where a node has the scale of its scores."""
    return rewrite(graph, (_fused,))


def why_float(result: QuantisedResult, node: Node) -> NoReturn:
    """The reason why an Attention before a QuantizeLinear stays in float."""
    if SCORE_SCALE not in node.attributes:
        decline("be an operator of integers, got Attention")
    _integer(result.graph, node)
    decline("be an operator of integers, got Attention")


def problem_of(graph: Graph, node: Node) -> str:
    """What an Attention must do to run on integers; empty if it does."""
    inputs = dict(enumerate(node.inputs))
    if inputs.get(_LENGTHS) or node.attribute("softcap") or len(graph.tensor(node.inputs[0]).shape or ()) not in (3, 4):
        return "have neither lengths nor a bound of scores"
    if max(int(node.attribute("left_window_size")), int(node.attribute("right_window_size"))) >= 0:
        return "attend all places before a token"
    if inputs.get(_MASK) and graph.tensor(inputs[_MASK]).dtype != "bool":
        return "have a mask of booleans"
    if bool(inputs.get(_PAST_KEY)) != bool(inputs.get(_PAST_VALUE)):
        return "have keys and values of the past, or none of both"
    return ""


def _fused(graph: Graph, node: Node) -> Replacement | None:
    if node.op != "Attention" or SCORE_SCALE not in node.attributes:
        return None
    try:
        return _integer(graph, node)
    except NotIntegerError:
        return None


def _integer(graph: Graph, node: Node) -> Replacement:
    """Q(Attention(DQ(q), DQ(k), DQ(v), mask, past)), whose present keys and values are DQ(...)."""
    problem = problem_of(graph, node)
    if problem:
        decline(problem)
    query, key, value = (activation(graph, name) for name in node.inputs[:3])
    if query.zero_point or key.zero_point or value.zero_point:
        decline("have queries, keys and values with the zero point 0")
    heads, kv_heads, size = heads_of(graph, node)
    result = _result(graph, node)
    step = float(node.attributes[SCORE_SCALE])
    factor = softmax_factor(step)
    if not 0 < factor < 1 << FACTOR_BITS:
        decline(f"have scores in steps of an exponent from 1 to {(1 << FACTOR_BITS) - 1}, got {factor}")
    scale = float(node.attribute("scale") or 0) or 1 / math.sqrt(size)
    scores = multipliers(np.float64(float(query.scale) * float(key.scale) * scale / step))
    attributes: dict[str, Any] = {
        "heads": heads, "kv_heads": kv_heads, "causal": int(node.attribute("is_causal")), "factor": factor,
        "score_multiplier": scores["multiplier"], "score_shift": scores["shift"],
        **multipliers(np.float64(float(value.scale) / (SHARES * float(result.scale)))), **result.attributes,
    }  # fmt: skip
    made = _Values(graph, node)
    quantiser, dequantiser = result.nodes[-1], graph.producers[node.inputs[1]]
    of_values = graph.producers[node.inputs[2]]
    past = [
        made.quantised(place, maker.inputs[1:], value.name)
        for place, maker, value in ((_PAST_KEY, dequantiser, key), (_PAST_VALUE, of_values, value))
    ]
    mask = node.inputs[_MASK] if len(node.inputs) > _MASK else ""
    attended = fresh_name(graph, f"{result.name}_attended")
    made.types[attended] = graph.types[result.name]
    present = [made.present(1, dequantiser), made.present(2, of_values)]
    inputs = (query.name, key.name, value.name, mask, *past)
    fused = Node("vdla.QAttention", inputs, (attended, *present), attributes, node.name)
    nodes = (*made.before, fused, *made.after)
    return Replacement(nodes, {}, made.types, {result.name: attended}, matched=(quantiser,))


def _result(graph: Graph, node: Node) -> QuantisedResult:
    """The quantised result of a node that nothing else reads."""
    name = node.outputs[0]
    readers = graph.consumers.get(name, ())
    if graph.readers(name) != 1 or not readers or any(node.outputs[3:]):
        decline("have a result that only a QuantizeLinear reads, and no scores that are read")
    result = quantised_result(graph, readers[0])
    if result is None or result.value != name or len(result.nodes) > 1:
        decline("have a result of 8 bits with one scale")
    return result


def heads_of(graph: Graph, node: Node) -> tuple[int, int, int]:
    """The heads of queries, those of keys, and the elements of a head."""
    shapes = [graph.tensor(name).shape or () for name in node.inputs[:2]]
    if len(shapes[0]) == 4:
        heads, kv_heads, size = shapes[0][1], shapes[1][1], shapes[0][3]
    else:
        heads, kv_heads = int(node.attribute("q_num_heads")), int(node.attribute("kv_num_heads"))
        width = shapes[0][2]
        size = width // heads if isinstance(width, int) else width
    if not isinstance(heads, int) or not isinstance(kv_heads, int) or not isinstance(size, int):
        decline("have known numbers of heads and elements")
    return heads, kv_heads, size


class _Values:
    """The cache in integers: what makes the past, and what the present is made of."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node
        self.before: list[Node] = []
        self.after: list[Node] = []
        self.types: dict[str, Any] = {}

    def quantised(self, place: int, parameters: tuple[str, ...], base: str) -> str:
        """The past of an input in integers, whose parameters are those of the present."""
        given = self.node.inputs[place] if len(self.node.inputs) > place else ""
        if not given:
            return ""
        name = self._integers(f"{base}_past", self.graph.tensor(given))
        self.before.append(Node("QuantizeLinear", (given, *parameters), (name,), {}, f"{given}_quantise"))
        return name

    def present(self, output: int, dequantiser: Node) -> str:
        """The present of a result in integers, which is dequantised; none that nothing reads."""
        given = self.node.outputs[output] if len(self.node.outputs) > output else ""
        if not given:
            return ""
        name = self._integers(f"{given}_quantised", self.graph.tensor(given))
        parameters = dequantiser.inputs[1:]
        self.after.append(Node("DequantizeLinear", (name, *parameters), (given,), {}, f"{given}_dequantise"))
        return name

    def _integers(self, base: str, kind: TensorType) -> str:
        name = fresh_name(self.graph, base)
        self.types[name] = TensorType("int8", kind.shape)
        return name
