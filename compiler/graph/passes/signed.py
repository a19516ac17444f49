# SPDX-License-Identifier: Apache-2.0
"""Activations of uint8 become int8: q - 128 with the zero point - 128, which stands for the same.

Inputs and outputs of the graph keep their element type, by conversions there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.passes.movements import is_movement, moved_operand
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite

TO_INT8, TO_UINT8 = "vdla.ToInt8", "vdla.ToUint8"


def to_signed(graph: Graph) -> Graph:
    """The graph with int8 activations inside."""
    return rewrite(graph, (_quantise, _dequantise, _cancel, _delay))


def _quantise(graph: Graph, node: Node) -> Replacement | None:
    """Q to uint8 = ToUint8(Q to int8)."""
    result = node.outputs[0] if node.op == "QuantizeLinear" else ""
    if not result or graph.tensor(result).dtype != "uint8":
        return None
    zero = _signed_zero_point(graph, node)
    if zero is None:
        return None
    signed = fresh_name(graph, f"{result}_int8")
    attributes = {key: value for key, value in node.attributes.items() if key != "output_dtype"}
    made = replace(node, inputs=(*node.inputs[:2], zero[0]), outputs=(signed,), attributes=attributes)
    types = {**zero[1].types, signed: replace(graph.tensor(result), dtype="int8")}
    nodes = (made, Node(TO_UINT8, (signed,), (result,), {}, node.name))
    return Replacement(nodes, zero[1].constants, types)


def _dequantise(graph: Graph, node: Node) -> Replacement | None:
    """DQ of uint8 = DQ(ToInt8), of an activation."""
    if node.op != "DequantizeLinear" or graph.tensor(node.inputs[0]).dtype != "uint8":
        return None
    zero, value = _signed_zero_point(graph, node), graph.constant(node.inputs[0])
    if zero is None:
        return None
    signed = fresh_name(graph, f"{node.outputs[0]}_int8")
    kind = replace(graph.tensor(node.inputs[0]), dtype="int8")
    made = replace(node, inputs=(signed, node.inputs[1], zero[0]))
    constants, types = dict(zero[1].constants), {**zero[1].types, signed: kind}
    if value is not None:
        constants[signed] = (value ^ np.uint8(0x80)).view(np.int8)
        return Replacement((made,), constants, types)
    return Replacement((Node(TO_INT8, node.inputs[:1], (signed,), {}, node.name), made), constants, types)


def _signed_zero_point(graph: Graph, node: Node) -> tuple[str, Replacement] | None:
    """The name of the zero point less 128, and the constant."""
    given = node.inputs[2] if len(node.inputs) > 2 else ""
    value = graph.constant(given) if given else np.zeros(graph.tensor(node.inputs[1]).extents, np.uint8)
    if value is None:
        return None
    name = fresh_name(graph, f"{node.outputs[0]}_zero_point")
    return name, Replacement(
        constants={name: (value ^ np.uint8(0x80)).view(np.int8)}, types={name: TensorType("int8", value.shape)}
    )


def _cancel(graph: Graph, node: Node) -> Replacement | None:
    """ToInt8(ToUint8(x)) = x."""
    before = graph.producers.get(node.inputs[0]) if node.op == TO_INT8 else None
    if before is None or before.op != TO_UINT8:
        return None
    return Replacement(renamed={node.outputs[0]: before.inputs[0]})


def _delay(graph: Graph, node: Node) -> Replacement | None:
    """A movement of ToUint8(x) = ToUint8(the movement of x)."""
    before = graph.producers.get(moved_operand(node)) if is_movement(graph, node) else None
    if before is None or before.op != TO_UINT8 or len(node.outputs) != 1 or node.op == "Pad":
        return None
    signed = fresh_name(graph, f"{node.outputs[0]}_int8")
    moved = replace(node, inputs=(before.inputs[0], *node.inputs[1:]), outputs=(signed,))
    types = {signed: replace(graph.tensor(node.outputs[0]), dtype="int8")}
    return Replacement((moved, Node(TO_UINT8, (signed,), node.outputs, {}, node.name)), {}, types)
