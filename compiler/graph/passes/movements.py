# SPDX-License-Identifier: Apache-2.0
"""Operators that only move or select elements, which work on quantised values alike.

DequantizeLinear moves behind them and QuantizeLinear before them, next to the operators that
compute.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import QuantisationParameters, parameters
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite
from vdla.compiler.ir import limits


def is_movement(graph: Graph, node: Node) -> bool:
    """Whether results are elements of the first input, in any order; padding is zero."""
    if not has_trait(node.op, Trait.MOVEMENT | Trait.SELECTION):
        return False
    match node.op:
        case "MaxPool":
            return not any(node.outputs[1:])
        case "Resize":
            mode = node.attribute("coordinate_transformation_mode")
            return str(node.attribute("mode")) == "nearest" and mode != "tf_crop_and_resize"
        case "Pad":
            return _pads_zeros(graph, node)
        case _:
            return True


def moved_operand(node: Node) -> str:
    """The input whose elements are moved."""
    return node.inputs[0]


def move_quantisation(graph: Graph) -> Graph:
    """The graph with DequantizeLinear behind movements and QuantizeLinear before them."""
    raising = (_raise, _raise_over_concat, _raise_over_scatter, _round_trip)
    return rewrite(rewrite(graph, (_transpose_weight, _sink)), raising)


def _pads_zeros(graph: Graph, node: Node) -> bool:
    value = _padding(graph, node)
    return node.attribute("mode") != "constant" or (value is not None and not value.any())


def _padding(graph: Graph, node: Node) -> Array | None:
    """What a Pad of mode "constant" pads with; None if it is not known or no number, and for other
    nodes.
    """
    if node.op != "Pad" or node.attribute("mode") != "constant":
        return None
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    value = graph.constant(name) if name else np.zeros((), np.float32)
    return None if value is None or np.isnan(value).any() else value


def _moves(graph: Graph, node: Node) -> bool:
    """Whether results are elements of the first input, or one constant."""
    return is_movement(graph, node) or _padding(graph, node) is not None


# --- DequantizeLinear behind movements ------------------------------------------------------------


def _sink(graph: Graph, node: Node) -> Replacement | None:
    """M(DQ(x)) = DQ(M(x)), for an activation x of one scale, in which padding is exact."""
    if not _moves(graph, node):
        return None
    before = graph.producers.get(moved_operand(node))
    if before is None or before.op != "DequantizeLinear" or graph.constant(before.inputs[0]) is not None:
        return None
    quantisation = parameters(graph, before)
    if quantisation is None or not quantisation.per_tensor:
        return None
    value, dtype = _padding(graph, node), graph.tensor(before.inputs[0]).dtype
    if value is not None and _dequantised(_quantised(value, quantisation, dtype), quantisation) != value:
        return None
    return _moved_before(graph, node, before, quantisation)


def _moved_before(graph: Graph, node: Node, before: Node, quantisation: QuantisationParameters) -> Replacement:
    """The movement on the quantised values, and a DequantizeLinear of each of its results."""
    dtype = graph.tensor(before.inputs[0]).dtype
    made = {name: fresh_name(graph, f"{name}_{dtype}") for name in node.outputs if name}  # others are absent
    types = {result: replace(graph.tensor(name), dtype=dtype) for name, result in made.items()}
    operands, constants, more = _operands(graph, node, next(iter(types)), quantisation, dtype)
    results = tuple(made.get(name, "") for name in node.outputs)
    moved = replace(node, inputs=(before.inputs[0], *operands), outputs=results)
    after = [replace(before, inputs=(result, *before.inputs[1:]), outputs=(name,)) for name, result in made.items()]
    return Replacement((moved, *after), constants, {**types, **more})


def _operands(
    graph: Graph, node: Node, base: str, quantisation: QuantisationParameters, dtype: str
) -> tuple[tuple[str, ...], dict[str, np.ndarray], dict[str, TensorType]]:
    """The further inputs of a movement of quantised values: what a Pad pads with is quantised."""
    padding = _padding(graph, node)
    if padding is None:
        return node.inputs[1:], {}, {}
    name = fresh_name(graph, f"{base}_padding")
    value = _quantised(padding, quantisation, dtype)
    optional = node.inputs[3:]
    return (node.inputs[1], name, *optional), {name: value}, {name: TensorType(dtype, ())}


def _quantised(value: Array, quantisation: QuantisationParameters, dtype: str) -> Array:
    """A number of one element, by QuantizeLinear."""
    low, high = limits(dtype)
    steps = np.rint(value.reshape(()).astype(np.float32) / quantisation.scale[0]) + quantisation.zero_point[0]
    return np.array(np.clip(steps, low, high), dtype)


def _dequantised(value: Array, quantisation: QuantisationParameters) -> np.float32:
    return np.float32((int(value) - int(quantisation.zero_point[0])) * quantisation.scale[0])


def _transpose_weight(graph: Graph, node: Node) -> Replacement | None:
    """Transpose(DQ(constant)) = DQ(the constant transposed)."""
    before = graph.producers.get(node.inputs[0]) if node.op == "Transpose" else None
    value = graph.constant(before.inputs[0]) if before is not None and before.op == "DequantizeLinear" else None
    if before is None or value is None:
        return None
    quantisation = parameters(graph, before)
    if quantisation is None:
        return None
    order = node.attributes.get("perm", tuple(range(value.ndim))[::-1])
    axis = 0 if quantisation.per_tensor else order.index(quantisation.axis % value.ndim)
    name = fresh_name(graph, f"{node.outputs[0]}_value")
    made = np.ascontiguousarray(value.transpose(order))
    after = replace(
        before,
        inputs=(name, *before.inputs[1:]),
        outputs=node.outputs,
        attributes={**before.attributes, "axis": axis},
    )
    return Replacement((after,), {name: made}, {name: TensorType(graph.tensor(before.inputs[0]).dtype, made.shape)})


# --- QuantizeLinear before movements --------------------------------------------------------------


def _raise(graph: Graph, node: Node) -> Replacement | None:
    """Q(M(y)) = M(Q(y)), for a float y that nothing dequantises."""
    before = graph.producers.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
    if before is None or not _moves(graph, before) or graph.readers(node.inputs[0]) != 1:
        return None
    operand = moved_operand(before)
    quantisation, source = parameters(graph, node), graph.producers.get(operand)
    if quantisation is None or not quantisation.per_tensor or len(before.outputs) != 1:
        return None
    if source is None or source.op == "DequantizeLinear":
        return None
    dtype = graph.tensor(node.outputs[0]).dtype
    name = fresh_name(graph, f"{node.outputs[0]}_before")
    operands, constants, types = _operands(graph, before, name, quantisation, dtype)
    quantised = replace(node, inputs=(operand, *node.inputs[1:]), outputs=(name,))
    moved = replace(before, inputs=(name, *operands), outputs=node.outputs)
    types = {name: replace(graph.tensor(operand), dtype=dtype), **types}
    return Replacement((quantised, moved), constants, types, matched=(before,))


def _raise_over_concat(graph: Graph, node: Node) -> Replacement | None:
    """Q(Concat(a, b)) = Concat(Q(a), Q(b))."""
    before = graph.producers.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
    if before is None or before.op != "Concat" or graph.readers(node.inputs[0]) != 1:
        return None
    quantisation = parameters(graph, node)
    if quantisation is None or not quantisation.per_tensor:
        return None
    if not any(name in graph.producers for name in before.inputs):
        return None
    dtype = graph.tensor(node.outputs[0]).dtype
    names = [fresh_name(graph, f"{node.outputs[0]}_part{i}") for i in range(len(before.inputs))]
    parts = [
        replace(node, inputs=(name, *node.inputs[1:]), outputs=(made,))
        for name, made in zip(before.inputs, names, strict=True)
    ]
    types = {made: replace(graph.tensor(name), dtype=dtype) for made, name in zip(names, before.inputs, strict=True)}
    joined = replace(before, inputs=tuple(names), outputs=node.outputs)
    return Replacement((*parts, joined), {}, types, matched=(before,))


def _raise_over_scatter(graph: Graph, node: Node) -> Replacement | None:
    """Q(TensorScatter(a, b, places)) = TensorScatter(Q(a), Q(b), places)."""
    before = graph.producers.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
    if before is None or before.op != "TensorScatter" or graph.readers(node.inputs[0]) != 1:
        return None
    quantisation = parameters(graph, node)
    if quantisation is None or not quantisation.per_tensor:
        return None
    dtype, (past, new, *places) = graph.tensor(node.outputs[0]).dtype, before.inputs
    names = {name: fresh_name(graph, f"{node.outputs[0]}_{part}") for name, part in ((past, "past"), (new, "new"))}
    parts = [replace(node, inputs=(name, *node.inputs[1:]), outputs=(made,)) for name, made in names.items()]
    types = {made: replace(graph.tensor(name), dtype=dtype) for name, made in names.items()}
    scattered = replace(before, inputs=(*names.values(), *places), outputs=node.outputs)
    return Replacement((*parts, scattered), {}, types, matched=(before,))


def _round_trip(graph: Graph, node: Node) -> Replacement | None:
    """Q(DQ(x)) = x for equal scales and zero points."""
    before = graph.producers.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
    if before is None or before.op != "DequantizeLinear":
        return None
    if graph.tensor(before.inputs[0]).dtype != graph.tensor(node.outputs[0]).dtype:
        return None
    first, second = parameters(graph, before), parameters(graph, node)
    if first is None or second is None or not (first.per_tensor and second.per_tensor):
        return None
    if first.scale[0] != second.scale[0] or first.zero_point[0] != second.zero_point[0]:
        return None
    return Replacement(renamed={node.outputs[0]: before.inputs[0]})
