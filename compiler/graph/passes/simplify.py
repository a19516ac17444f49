# SPDX-License-Identifier: Apache-2.0
"""Algebraic clean-up: operators that do nothing, movements that compose, chains that merge.

Every rule keeps each result bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite, without_dead_code


def simplify(graph: Graph) -> Graph:
    """The graph after all rules of this module."""
    rules = (_copy, _reshape, _transpose, _neutral, _relu_twice, _clip)
    return _absorb_output_copies(without_dead_code(rewrite(graph, rules)))


def _static(graph: Graph, name: str) -> TensorType | None:
    """The type of a tensor whose extents are all known."""
    kind = graph.types.get(name)
    return kind if isinstance(kind, TensorType) and kind.static else None


def _same_type(graph: Graph, first: str, second: str) -> bool:
    known = _static(graph, first)
    return known is not None and known == graph.types[second]


def _producer(graph: Graph, name: str, *operators: str) -> Node | None:
    """The node that computes a value, if it applies one of the operators."""
    node = graph.producers.get(name)
    return node if node is not None and node.op in operators else None


# --- copies ---------------------------------------------------------------------------------------


def _copy(graph: Graph, node: Node) -> Replacement | None:
    """Operators whose result is their first input."""
    if not node.outputs or not _is_copy(graph, node) or node.outputs[0] in graph.outputs:
        return None
    return Replacement(renamed={node.outputs[0]: node.inputs[0]})


def _is_copy(graph: Graph, node: Node) -> bool:
    match node.op:
        case "Identity":
            return True
        case "Dropout":
            return not _training(graph, node) and not any(node.outputs[1:])
        case "Cast" | "Expand" | "Slice" | "Pad" | "Tile" | "CastLike":
            return _same_type(graph, node.inputs[0], node.outputs[0]) and _keeps_order(graph, node)
        case "Concat" | "Sum" | "Max" | "Min" | "Mean":
            return len(node.inputs) == 1
        case _:
            return False


def _training(graph: Graph, node: Node) -> bool:
    mode = node.inputs[2] if len(node.inputs) > 2 else ""
    value = graph.constant(mode)
    return bool(mode) and (value is None or bool(value))


def _keeps_order(graph: Graph, node: Node) -> bool:
    """Whether a node whose result has the type of its input is the identity."""
    if node.op == "Slice":
        steps = graph.constant(node.inputs[4]) if len(node.inputs) > 4 else np.ones(1)
        return steps is not None and bool((steps > 0).all())
    if node.op == "Pad":
        pads = graph.constant(node.inputs[1])
        return pads is not None and not pads.any()
    return True


# --- movements ------------------------------------------------------------------------------------


def _reshape(graph: Graph, node: Node) -> Replacement | None:
    """Remove reshapes to the same shape, and merge chains of reshapes."""
    if not _is_reshape(node) or (to := _static(graph, node.outputs[0])) is None:
        return None
    if _same_type(graph, node.inputs[0], node.outputs[0]):
        return Replacement(nodes=(Node("Identity", node.inputs[:1], node.outputs, {}, node.name),))
    producer = graph.producers.get(node.inputs[0])
    before = producer if producer is not None and _is_reshape(producer) else None
    source = node.inputs[0] if before is None else before.inputs[0]
    shape = np.array(to.extents, np.int64)
    given = graph.constant(node.inputs[1]) if node.op == "Reshape" else None
    if before is None and given is not None and np.array_equal(given, shape):
        return None
    if not prod(to.extents):
        return None  # a zero of the shape would mean "as in the input"
    name = fresh_name(graph, f"{node.outputs[0]}_shape")
    return Replacement(
        nodes=(Node("Reshape", (source, name), node.outputs, {}, node.name),),
        constants={name: shape},
        types={name: TensorType("int64", shape.shape)},
        matched=() if before is None else (before,),
    )


def _is_reshape(node: Node) -> bool:
    return has_trait(node.op, Trait.RESHAPE) and node.op != "Identity"


def _transpose(graph: Graph, node: Node) -> Replacement | None:
    """Remove transposes that keep the order, and merge two in a row."""
    if node.op != "Transpose":
        return None
    order = _order(graph, node)
    if order is None:
        return None
    if order == tuple(range(len(order))):
        kept = node.outputs[0] in graph.outputs
        return None if kept else Replacement(renamed={node.outputs[0]: node.inputs[0]})
    before = _producer(graph, node.inputs[0], "Transpose")
    first = None if before is None else _order(graph, before)
    if before is None or first is None:
        return None
    both = tuple(first[axis] for axis in order)
    return Replacement(
        nodes=(Node("Transpose", before.inputs, node.outputs, {"perm": both}, node.name),), matched=(before,)
    )


def _order(graph: Graph, node: Node) -> tuple[int, ...] | None:
    if "perm" in node.attributes:
        return tuple(node.attributes["perm"])
    kind = graph.tensor(node.inputs[0])
    return None if kind.shape is None else tuple(reversed(range(len(kind.shape))))


# --- arithmetic -----------------------------------------------------------------------------------


def _neutral(graph: Graph, node: Node) -> Replacement | None:
    """x * 1, x / 1 and x - 0, where the result has the type of x."""
    if node.op not in ("Mul", "Div", "Sub") or node.outputs[0] in graph.outputs:
        return None
    neutral = 0 if node.op == "Sub" else 1
    sides = ((0, 1), (1, 0)) if node.op == "Mul" else ((0, 1),)
    for data, constant in sides:
        value = graph.constant(node.inputs[constant])
        if value is not None and _all_equal(value, neutral) and _same_type(graph, node.inputs[data], node.outputs[0]):
            return Replacement(renamed={node.outputs[0]: node.inputs[data]})
    return None


def _all_equal(value: Array, number: int) -> bool:
    return value.size > 0 and value.dtype.kind in "iuf" and bool((value == number).all())


def _relu_twice(graph: Graph, node: Node) -> Replacement | None:
    """Relu of a Relu."""
    if node.op != "Relu" or node.outputs[0] in graph.outputs or _producer(graph, node.inputs[0], "Relu") is None:
        return None
    return Replacement(renamed={node.outputs[0]: node.inputs[0]})


def _clip(graph: Graph, node: Node) -> Replacement | None:
    """Clip(Relu(x), low, high) with low >= 0 is Clip(x, low, high)."""
    if node.op != "Clip" or len(node.inputs) < 2 or (before := _producer(graph, node.inputs[0], "Relu")) is None:
        return None
    low = graph.constant(node.inputs[1])
    if low is None or not low.size or not low >= 0:
        return None
    return Replacement(nodes=(replace(node, inputs=(before.inputs[0], *node.inputs[1:])),), matched=(before,))


# --- outputs --------------------------------------------------------------------------------------


def _absorb_output_copies(graph: Graph) -> Graph:
    """Rename the result of a node to the output that an Identity copies it to.

    Of several copies of one value, one is absorbed, and the others copy the output.
    """
    renamed: dict[str, str] = {}
    absorbed = set()
    for copy in graph.nodes:
        source, name = copy.inputs[0] if copy.inputs else "", copy.outputs[0]
        if copy.op != "Identity" or name not in graph.outputs or source in renamed:
            continue
        if source in graph.producers and source not in graph.outputs:
            renamed[source] = name
            absorbed.add(id(copy))
    if not renamed:
        return graph

    def names(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(renamed.get(name, name) for name in values)

    kept = [node for node in graph.nodes if id(node) not in absorbed]
    return graph.replace(nodes=tuple(replace(n, inputs=names(n.inputs), outputs=names(n.outputs)) for n in kept))
