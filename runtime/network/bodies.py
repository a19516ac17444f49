# SPDX-License-Identifier: Apache-2.0
"""The bodies of If, Loop and Scan before they become plans: typed, simplified, fused.

Inside of a body, shapes follow from what the node takes: a state that every iteration leaves in its
shape has that of its first value, so that kernels can be compiled for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vdla.compiler.graph import Graph, Node, TensorType, ValueType
from vdla.compiler.graph.onnx import OnnxError, infer_graph_types
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.passes import GraphPass, fuse, run_passes, with_inner_constants
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION
from vdla.runtime.numpy_operators import CONTROL_FLOW

FUSION = GraphPass("fuse", lambda graph: fuse(graph, lambda node: not has_trait(node.op, Trait.RESHAPE)))


def prepare_bodies(graph: Graph) -> Graph:
    """The graph with the bodies of its nodes ready for plans; their values have unique names."""
    if not any(node.op in CONTROL_FLOW for node in graph.nodes):
        return graph
    nodes = tuple(_prepared(graph, node) if node.op in CONTROL_FLOW else node for node in graph.nodes)
    return graph.replace(nodes=nodes)


BODIES = GraphPass("bodies", prepare_bodies)
_PASSES = (*PREPARATION, *INTEGER, BODIES, FUSION)


def _prepared(graph: Graph, node: Node) -> Node:
    node = with_inner_constants(graph.constants, node)
    label = next(filter(None, node.outputs))
    attributes = dict(node.attributes)
    for key, body in node.bodies.items():
        scoped = _scoped(body, f"{label}.{key}.")
        attributes[key] = run_passes(_typed(node, scoped, [graph.types.get(name) for name in node.inputs]), _PASSES)
    return replace(node, attributes=attributes)


# --- types ----------------------------------------------------------------------------------------


def _typed(node: Node, body: Graph, kinds: Sequence[ValueType | None]) -> Graph:
    """The body with the types that follow from those of the node's inputs."""
    given = _input_kinds(node, body, kinds)
    first, states = _states(node)
    conditions = int(node.op == "Loop")
    while True:
        try:
            typed = _declared(infer_graph_types(replace(body, types={**body.types, **given})), body)
        except OnnxError:  # a body for other shapes, such as a branch that is not taken
            return body
        wider: dict[str, ValueType] = {}
        for place in range(states):
            name, result = body.inputs[first + place], body.outputs[conditions + place]
            both = _common(typed.types[name], typed.types.get(result))
            if both != typed.types[name]:
                wider[name] = both
        if not wider:
            return typed
        given |= wider


def _declared(typed: Graph, body: Graph) -> Graph:
    """The types of results that the model declares, where inference leaves them open."""
    types = dict(typed.types)
    for name, kind in body.types.items():
        if name not in typed.inputs and isinstance(kind, TensorType) and kind.static and name in types:
            declared = types[name]
            if isinstance(declared, TensorType) and declared.dtype == kind.dtype and not declared.static:
                types[name] = kind
    return replace(typed, types=types)


def _states(node: Node) -> tuple[int, int]:
    """The place of the first state among the inputs of the body, and the number of states."""
    captures = node.attributes["captures"]
    match node.op:
        case "Loop":
            return 2, len(node.inputs) - 2 - captures
        case "Scan":
            return 0, len(node.inputs) - node.attributes["num_scan_inputs"] - captures
    return 0, 0


def _input_kinds(node: Node, body: Graph, kinds: Sequence[ValueType | None]) -> dict[str, ValueType]:
    """The types of the inputs of a body; those of states are of their first values."""
    lead = len(kinds) - len(body.inputs)
    given = {name: kind for name, kind in zip(body.inputs, kinds[lead:], strict=True) if kind is not None}
    if node.op == "Loop":
        given |= {body.inputs[0]: TensorType("int64", ()), body.inputs[1]: TensorType("bool", ())}
    if node.op == "Scan":
        scanned, last = node.attributes["num_scan_inputs"], len(body.inputs) - node.attributes["captures"]
        axes = node.attributes.get("scan_input_axes", (0,) * scanned)
        for name, axis in zip(body.inputs[last - scanned : last], axes, strict=True):
            if name in given:
                given[name] = _without_axis(given[name], axis)
    return given


def _without_axis(kind: ValueType, axis: int) -> ValueType:
    if not isinstance(kind, TensorType) or not kind.shape:
        return kind
    place = axis % len(kind.shape)
    return replace(kind, shape=(*kind.shape[:place], *kind.shape[place + 1 :]))


def _common(one: ValueType, other: ValueType | None) -> ValueType:
    """The type of the values of both."""
    if not isinstance(one, TensorType) or not isinstance(other, TensorType) or one.shape is None:
        return one
    if other.shape is None or len(other.shape) != len(one.shape):
        return replace(one, shape=None)
    pairs = zip(one.shape, other.shape, strict=True)
    return replace(one, shape=tuple(a if a == b else None for a, b in pairs))


# --- names ----------------------------------------------------------------------------------------


def _scoped(graph: Graph, prefix: str) -> Graph:
    """The graph with `prefix` before the names of all values, those of bodies within included."""

    def names(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(value and prefix + value for value in values)

    def scoped(node: Node) -> Node:
        bodies = {key: _scoped(body, prefix) for key, body in node.bodies.items()}
        attributes = {**node.attributes, **bodies}
        return replace(node, inputs=names(node.inputs), outputs=names(node.outputs), attributes=attributes)

    return replace(
        graph,
        inputs=names(graph.inputs),
        outputs=names(graph.outputs),
        nodes=tuple(map(scoped, graph.nodes)),
        constants={prefix + name: value for name, value in graph.constants.items()},
        types={prefix + name: kind for name, kind in graph.types.items()},
    )
