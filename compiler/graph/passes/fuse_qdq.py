# SPDX-License-Identifier: Apache-2.0
"""The pass from QuantizeLinear and DequantizeLinear around float operators to integer operators.

Unmatched operators keep ONNX's definition: dequantised, computed in float32, quantised.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import NotIntegerError
from vdla.compiler.graph.integer.attention import fuse_attention
from vdla.compiler.graph.integer.pools import fuse_max_pools
from vdla.compiler.graph.integer.result import QuantisedResult, quantised_result
from vdla.compiler.graph.operators import RECORDS
from vdla.compiler.graph.passes.fold_constants import Evaluate
from vdla.compiler.graph.passes.function_tables import fuse_table
from vdla.compiler.graph.passes.movements import move_quantisation
from vdla.compiler.graph.passes.row_reductions import reduce_rows
from vdla.compiler.graph.passes.signed import to_signed
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite, without_dead_code


@dataclass(frozen=True, slots=True)
class FusedGraph:
    """A graph with integer operators.

    `reasons` has, by result name, the reason why a float operator before a QuantizeLinear stays; a
    reason reads after "must".
    """

    graph: Graph
    reasons: dict[str, str]


def fuse_qdq(graph: Graph, evaluate: Evaluate | None = None) -> Graph:
    """The graph with integer operators; tables of functions need `evaluate`."""
    return explain_fusion(graph, evaluate).graph


def prepared(graph: Graph) -> Graph:
    """The graph with int8 activations, whose DequantizeLinear and QuantizeLinear are next to the
    operators that compute.
    """
    return move_quantisation(to_signed(unfold_quantised(graph)))


def explain_fusion(graph: Graph, evaluate: Evaluate | None = None) -> FusedGraph:
    """The graph with integer operators, and the reasons of the remaining float operators."""
    graph = fuse_attention(prepared(graph))
    patterns = _Patterns(evaluate)
    graph = rewrite(graph, (patterns.fuse,))
    graph = without_dead_code(reduce_rows(fuse_max_pools(graph)))
    kept = {name for node in graph.nodes for name in node.outputs}
    return FusedGraph(graph, {name: why for name, why in patterns.reasons.items() if name in kept})


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The patterns in front of a QuantizeLinear; `reasons` collects those that did not match."""

    evaluate: Evaluate | None
    reasons: dict[str, str] = field(default_factory=dict)

    def fuse(self, graph: Graph, node: Node) -> Replacement | None:
        """The integer operator for a QuantizeLinear and the float operators before it."""
        result = quantised_result(graph, node)
        if result is None or result.producer is None:
            return None
        try:
            return self._replacement(result, result.producer)
        except NotIntegerError as error:
            self.reasons[result.value] = str(error)
            return None

    def _replacement(self, result: QuantisedResult, producer: Node) -> Replacement:
        record = RECORDS.get(producer.op)
        if record is None or record.integer is None:
            return self._table(result, f"be an operator of integers, got {producer.op}")
        try:
            return record.integer(result, producer)
        except NotIntegerError as error:
            return self._table(result, str(error))

    def _table(self, result: QuantisedResult, reason: str) -> Replacement:
        """A table, or the reason why the operator itself did not match."""
        if self.evaluate is None:
            raise NotIntegerError(reason)
        try:
            return fuse_table(result, self.evaluate)
        except NotIntegerError:
            raise NotIntegerError(reason) from None


# --- QLinearConv and QLinearMatMul ----------------------------------------------------------------


def unfold_quantised(graph: Graph) -> Graph:
    """The graph without QLinearConv and QLinearMatMul."""
    return rewrite(graph, (_unfold,))


def _unfold(graph: Graph, node: Node) -> Replacement | None:
    """y = Q(op(DQ(a), DQ(b), DQ(bias)))."""
    if node.op not in ("QLinearConv", "QLinearMatMul"):
        return None
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, *optional = node.inputs
    result = node.outputs[0]
    names = [fresh_name(graph, f"{result}_{part}") for part in ("a", "b", "float", "bias", "bias_scale")]
    left, right, total, bias, bias_scale = names
    axis = 0 if node.op == "QLinearConv" else -1
    nodes = [
        Node("DequantizeLinear", (a, a_scale, a_zero), (left,), {}, node.name),
        Node("DequantizeLinear", (b, b_scale, b_zero), (right,), {"axis": axis}, node.name),
    ]
    types = {left: _as_float(graph, a), right: _as_float(graph, b), total: _as_float(graph, result)}
    constants = {}
    operands: tuple[str, ...] = (left, right)
    if optional and optional[0]:
        scales = graph.constant(a_scale), graph.constant(b_scale)
        if scales[0] is None or scales[1] is None:
            return None
        constants[bias_scale] = np.asarray(scales[0].reshape(()) * scales[1], np.float32)
        types |= {bias: _as_float(graph, optional[0]), bias_scale: TensorType("float32", constants[bias_scale].shape)}
        nodes.append(Node("DequantizeLinear", (optional[0], bias_scale), (bias,), {"axis": 0}, node.name))
        operands = (left, right, bias)
    op = node.op.removeprefix("QLinear")
    nodes.append(Node(op, operands, (total,), node.attributes, node.name))
    nodes.append(Node("QuantizeLinear", (total, y_scale, y_zero), (result,), {}, node.name))
    return Replacement(tuple(nodes), constants, types)


def _as_float(graph: Graph, name: str) -> TensorType:
    return replace(graph.tensor(name), dtype="float32")
