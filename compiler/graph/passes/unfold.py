"""Quantised operators of ONNX as QuantizeLinear and DequantizeLinear around float operators.

QLinearConv and QLinearMatMul mean just that; afterwards there is one form to match.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite


def unfold_quantised(graph: Graph) -> Graph:
    """The graph without QLinearConv and QLinearMatMul."""
    return rewrite(graph, (_unfold,))


def _unfold(graph: Graph, node: Node) -> Replacement | None:
    """y = Q(op(DQ(a), DQ(b), DQ(bias)))."""
    if node.op not in ("QLinearConv", "QLinearMatMul"):
        return None
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, *rest = node.inputs
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
    if rest and rest[0]:
        scales = graph.constant(a_scale), graph.constant(b_scale)
        if scales[0] is None or scales[1] is None:
            return None
        constants[bias_scale] = np.asarray(scales[0].reshape(()) * scales[1], np.float32)
        types |= {bias: _as_float(graph, rest[0]), bias_scale: TensorType("float32", constants[bias_scale].shape)}
        nodes.append(Node("DequantizeLinear", (rest[0], bias_scale), (bias,), {"axis": 0}, node.name))
        operands = (left, right, bias)
    op = node.op.removeprefix("QLinear")
    nodes.append(Node(op, operands, (total,), node.attributes, node.name))
    nodes.append(Node("QuantizeLinear", (total, y_scale, y_zero), (result,), {}, node.name))
    return Replacement(tuple(nodes), constants, types)


def _as_float(graph: Graph, name: str) -> TensorType:
    return replace(graph.tensor(name), dtype="float32")
