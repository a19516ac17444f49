# SPDX-License-Identifier: Apache-2.0
"""Constant folding: nodes whose inputs are all constant are evaluated, as are shapes of values.

Types are refined on the way: a new constant may decide the shape of a result, and that shape the
next constant, so that one sweep in topological order reaches the fixed point.

The evaluator and the inference of types are arguments: kernels run in `runtime`, and ONNX's
inference in `graph.onnx`, neither of which this room imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Extent, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.passes.common_subexpressions import is_random

Evaluate = Callable[[Node, Sequence[Array | None]], Sequence[Array]]
InferNode = Callable[[Node, Mapping[str, ValueType], Mapping[str, Array]], Mapping[str, ValueType]]
"""The types of a node's results, inferred from the types of values and from constants."""

MAX_GROWTH_BYTES = 1 << 22
"""The most bytes that a folded constant may exceed its operands by."""

DEQUANTISATION = ("DequantizeLinear",)
"""Operators not folded by default: integer patterns match the DequantizeLinear of weights."""


def fold_constants(
    graph: Graph,
    evaluate: Evaluate,
    keep: Sequence[str] = DEQUANTISATION,
    infer: InferNode = lambda node, types, constants: {},
) -> Graph:
    """The graph with constant nodes evaluated, and with the types that follow from their values.

    Nodes with bodies, random nodes, operators to `keep`, and results far larger than their inputs
    stay; branches of If are folded in themselves.
    """
    return _folded(graph, _Folding(dict(graph.constants), dict(graph.types), evaluate, keep, infer))


def refine_types(graph: Graph, infer: InferNode) -> Graph:
    """The graph with open types of results refined by what is known of their inputs."""
    folding = _Folding(dict(graph.constants), dict(graph.types), lambda node, given: (), (), infer)
    for node in graph.nodes:
        folding.refine(node)
    return graph.replace(types=folding.types) if folding.news else graph


def _folded(graph: Graph, folding: _Folding) -> Graph:
    nodes = tuple(folding.nodes(graph.nodes))
    if nodes == graph.nodes and folding.types == graph.types:
        return graph
    return graph.replace(nodes=nodes, constants=folding.constants, types=folding.types)


@dataclass
class _Folding:
    """The constants and types known so far; `news` are the values with new information."""

    constants: dict[str, Array]
    types: dict[str, ValueType]
    evaluate: Evaluate
    keep: Sequence[str]
    infer: InferNode
    news: set[str] = field(default_factory=set)

    def nodes(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """The nodes that stay."""
        for original in nodes:
            node = self._with_folded_branches(original) if original.op == "If" else original
            if node is not original or not self.news.isdisjoint(node.inputs):
                self.refine(node)
            results = None if node.op in self.keep else self._results(node)
            if results is None:
                yield node
                continue
            for name, value in zip(node.outputs, results, strict=False):
                if name:
                    self.constants[name] = np.asarray(value)
                    self.types[name] = replace(_tensor(self.types[name]), shape=self.constants[name].shape)
                    self.news.add(name)

    def refine(self, node: Node) -> None:
        """Infer open types of results again from the inputs known now."""
        if all(_is_closed(self.types[name]) for name in filter(None, node.outputs)):
            return
        for name, inferred in self.infer(node, self.types, self.constants).items():
            refined = _refined(self.types[name], inferred)
            if refined != self.types[name]:
                self.types[name] = refined
                self.news.add(name)

    def _with_folded_branches(self, node: Node) -> Node:
        """An If whose branches know the constants and the types that they capture."""
        closed = with_inner_constants(self.constants, node)
        branches = {key: self._folded_branch(closed, branch) for key, branch in closed.bodies.items()}
        if branches == closed.bodies:
            return closed
        return replace(closed, attributes={**closed.attributes, **branches})

    def _folded_branch(self, node: Node, branch: Graph) -> Graph:
        captured = dict(zip(branch.inputs, node.inputs[1:], strict=True))
        types = {**branch.types, **{name: self.types[outer] for name, outer in captured.items()}}
        news = {name for name in types if name in branch.constants or captured.get(name) in self.news}
        inner = _Folding(dict(branch.constants), types, self.evaluate, self.keep, self.infer, news)
        return _folded(branch, inner)

    def _results(self, node: Node) -> Sequence[Array] | None:
        """The results of a node that can be folded."""
        if node.op in ("Shape", "Size") and (shape := _static_shape(self.types.get(node.inputs[0]))) is not None:
            return (_shape_result(node, shape),)
        if node.bodies or is_random(node):
            return None
        if not all(name in self.constants for name in node.inputs if name):
            return None
        if not all(isinstance(self.types[name], TensorType) for name in node.outputs if name):
            return None
        given = [self.constants[name] if name else None for name in node.inputs]
        if _growth_bytes(node, given, self.types) > MAX_GROWTH_BYTES:
            return None
        try:
            return self.evaluate(node, given)
        except GraphError:
            return None  # an operator without an implementation is refused later, with all others


def _tensor(kind: object) -> TensorType:
    assert isinstance(kind, TensorType)
    return kind


# --- types ----------------------------------------------------------------------------------------


def _is_closed(kind: ValueType) -> bool:
    """Whether a type cannot be refined further."""
    return not isinstance(kind, TensorType) or kind.static


def _refined(known: ValueType, inferred: ValueType) -> ValueType:
    """A type refined by the inferred extents."""
    if not isinstance(known, TensorType) or not isinstance(inferred, TensorType):
        return known
    if inferred.shape is None or inferred.dtype != known.dtype:
        return known
    if known.shape is None or len(known.shape) != len(inferred.shape):
        return inferred
    return replace(known, shape=tuple(map(_refined_extent, known.shape, inferred.shape)))


def _refined_extent(known: Extent, inferred: Extent) -> Extent:
    return inferred if isinstance(inferred, int) or known is None else known


def _static_shape(kind: object) -> tuple[int, ...] | None:
    return kind.extents if isinstance(kind, TensorType) and kind.static else None


def _shape_result(node: Node, shape: tuple[int, ...]) -> Array:
    if node.op == "Size":
        return np.array(prod(shape), np.int64)
    return np.array(shape[slice(node.attribute("start"), node.attributes.get("end"))], np.int64)


def _growth_bytes(node: Node, given: Sequence[Array | None], types: Mapping[str, object]) -> int:
    """The bytes by which results of known shape exceed the inputs."""
    results = 0
    for name in filter(None, node.outputs):
        shape = _static_shape(types[name])
        results += 8 * prod(shape) if shape is not None else 0
    return results - sum(value.nbytes for value in given if value is not None)


# --- bodies ---------------------------------------------------------------------------------------


def with_inner_constants(constants: Mapping[str, Array], node: Node) -> Node:
    """The node whose captured constants are constants of its bodies."""
    first = len(node.inputs) - node.attributes["captures"]
    places = range(first, len(node.inputs))
    captured = {place: constants[node.inputs[place]] for place in places if node.inputs[place] in constants}
    if not captured:
        return node
    attributes = dict(node.attributes, captures=node.attributes["captures"] - len(captured))
    for key, body in node.bodies.items():
        lead = len(node.inputs) - len(body.inputs)
        inner = {body.inputs[place - lead]: value for place, value in captured.items()}
        inputs = tuple(name for name in body.inputs if name not in inner)
        kinds = {name: body.types[name] for name in inner}
        types = {n: replace(kind, shape=inner[n].shape) for n, kind in kinds.items() if isinstance(kind, TensorType)}
        attributes[key] = body.replace(
            inputs=inputs, constants={**body.constants, **inner}, types={**body.types, **types}
        )
    inputs = tuple(name for place, name in enumerate(node.inputs) if place not in captured)
    return replace(node, inputs=inputs, attributes=attributes)
