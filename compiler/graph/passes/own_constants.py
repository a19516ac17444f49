"""Constants that bodies capture, as constants of the bodies themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler.graph.graph import Array, Node, TensorType


def with_own_constants(constants: Mapping[str, Array], node: Node) -> Node:
    """The node whose bodies have the constants among the captured values as their own."""
    first = len(node.inputs) - node.attributes["captures"]
    found = {place: constants[name] for place, name in enumerate(node.inputs) if place >= first and name in constants}
    if not found:
        return node
    attributes = dict(node.attributes, captures=node.attributes["captures"] - len(found))
    for key, body in node.bodies.items():
        lead = len(node.inputs) - len(body.inputs)
        own = {body.inputs[place - lead]: value for place, value in found.items()}
        inputs = tuple(name for name in body.inputs if name not in own)
        kinds = {name: body.types[name] for name in own}
        types = {n: replace(kind, shape=own[n].shape) for n, kind in kinds.items() if isinstance(kind, TensorType)}
        attributes[key] = body.replace(
            inputs=inputs, constants={**body.constants, **own}, types={**body.types, **types}
        )
    inputs = tuple(name for place, name in enumerate(node.inputs) if place not in found)
    return replace(node, inputs=inputs, attributes=attributes)
