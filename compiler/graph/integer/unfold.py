"""Quantised operators of ONNX as QuantizeLinear and DequantizeLinear around float operators.

QLinearConv and QLinearMatMul mean just that; afterwards there is one form to match. Constants that
QuantizeLinear makes are computed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import parameters
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


def unfold_quantised(graph: Graph) -> Graph:
    """The graph without QLinearConv, QLinearMatMul and quantised constants."""
    return rewrite(graph, (_unfold, _quantise_constant))


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


def _quantise_constant(graph: Graph, node: Node) -> Replacement | None:
    """A float weight that the model quantises itself."""
    value = graph.constant(node.inputs[0]) if node.op == "QuantizeLinear" else None
    if value is None or value.dtype != np.float32 or node.outputs[0] in graph.outputs:
        return None
    found, dtype = parameters(graph, node), graph.tensor(node.outputs[0]).dtype
    if found is None or dtype not in _LIMITS:
        return None
    sides = [1] * value.ndim
    if not found.per_tensor:
        sides[found.axis] = -1
    rounded = np.rint(value / found.scale.reshape(sides)) + found.zero_point.reshape(sides)
    made: Array = np.clip(rounded, *_LIMITS[dtype]).astype(dtype)
    name = fresh_name(graph, f"{node.outputs[0]}_value")
    return Replacement((), {name: made}, {name: TensorType(dtype, made.shape)}, {node.outputs[0]: name})
