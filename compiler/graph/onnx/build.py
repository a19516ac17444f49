# SPDX-License-Identifier: Apache-2.0
"""The typed model as a graph: constants as arrays, bodies closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto

from vdla.compiler.graph.attributes import CAPTURES
from vdla.compiler.graph.graph import Array, Attribute, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.integer.attention import SCORE_SCALE
from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.compiler.graph.onnx.load import LoadedModel
from vdla.compiler.graph.onnx.values import array_dtype, array_of, attribute_of, dense_of, operator_name, type_of

_DEFAULT_DOMAINS = ("", "ai.onnx")
_SHORT = ("int2", "int4", "uint2", "uint4")


def build_graph(loaded: LoadedModel) -> Graph:
    """The graph of a typed model."""
    scope = _Scope(loaded.name, dict(loaded.weights))
    return _Builder(scope).graph(loaded.model.graph, loaded.inputs).pruned


@dataclass
class _Scope:
    """The values of a graph while it is built; `outer` are those of the graph around a body."""

    place: str
    constants: dict[str, Array] = field(default_factory=dict)
    types: dict[str, ValueType] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    captured: dict[str, None] = field(default_factory=dict)
    outer: _Scope | None = None

    def read(self, name: str) -> str:
        """A value that a node reads: one of this graph, or one around it, captured."""
        if not name or name in self.defined or name in self.constants:
            return name
        if name in self.captured:
            return name
        if self.outer is None:
            raise OnnxError(f"{self.place}: every value must be computed before it is read, got {name}")
        self.outer.read(name)
        if name in self.outer.constants:
            self.constants[name] = self.outer.constants[name]
        else:
            self.captured[name] = None
        if name in self.outer.types:
            self.types[name] = self.outer.types[name]
        return name

    def define(self, name: str) -> str:
        """A new value."""
        if name in self.defined or name in self.constants or name in self.captured:
            raise OnnxError(f"{self.place}: every value must have its own name, got {name} twice")
        self.defined.add(name)
        return name

    def constant(self, name: str, value: Array) -> None:
        """A new constant."""
        self.define(name)
        self.defined.discard(name)
        self.constants[name] = value


class _Builder:
    def __init__(self, scope: _Scope) -> None:
        self.scope = scope

    def graph(self, proto: GraphProto, inputs: tuple[str, ...]) -> Graph:
        """The graph with `inputs`; values around it that it reads follow them."""
        scope = self.scope
        declared = _declared(proto)
        for name in inputs:
            scope.define(name)
        for tensor in proto.initializer:
            scope.constant(tensor.name, array_of(tensor))
        for sparse in proto.sparse_initializer:
            scope.constant(sparse.values.name, dense_of(sparse))
        scope.types |= {name: kind for name, kind in declared.items() if name not in scope.captured}
        nodes = list(self._nodes(proto))
        outputs = tuple(scope.read(value.name) for value in proto.output)
        for name, value in scope.constants.items():
            scope.types[name] = TensorType(array_dtype(value), value.shape)
        return Graph(
            name=proto.name or "graph",
            inputs=(*inputs, *scope.captured),
            outputs=outputs,
            nodes=tuple(nodes),
            constants=scope.constants,
            types=scope.types,
        )

    def _nodes(self, proto: GraphProto) -> Iterator[Node]:
        for node in proto.node:
            if node.op_type == "Constant" and node.domain in _DEFAULT_DOMAINS:
                self.scope.constant(node.output[0], constant_of(node))
                continue
            made = self._node(node)
            for name in filter(None, made.outputs):
                self.scope.define(name)
            yield made

    def _node(self, proto: NodeProto) -> Node:
        inputs = [self.scope.read(name) for name in _trimmed(proto.input)]
        attributes: dict[str, Attribute] = {}
        bodies = {a.name: a.g for a in proto.attribute if a.type == AttributeProto.GRAPH}
        for attribute in proto.attribute:
            if attribute.name not in bodies:
                attributes[attribute.name] = attribute_of(attribute)
        if bodies:
            closed, captures = self._bodies(bodies, proto)
            attributes |= {**closed, CAPTURES: len(captures)}
            inputs = [*(self.scope.read(name) for name in proto.input), *captures]
        attributes |= _hints(proto)
        op = operator_name(proto.domain, proto.op_type)
        outputs = _trimmed(proto.output)
        return self._with_type(Node(op, tuple(inputs), tuple(outputs), attributes, proto.name))

    def _with_type(self, node: Node) -> Node:
        """A conversion with the type of its result as an attribute: that of an operand may be lost,
        since integers of less than a byte are stored in one.
        """
        kind = self.scope.types.get(node.outputs[0]) if node.outputs else None
        if not isinstance(kind, TensorType):
            return node
        match node.op:
            case "CastLike":
                return replace(
                    node, op="Cast", inputs=node.inputs[:1], attributes={**node.attributes, "to": kind.dtype}
                )
            case "QuantizeLinear" if kind.dtype in _SHORT:
                return replace(node, attributes={**node.attributes, "output_dtype": kind.dtype})
            case _:
                return node

    def _bodies(self, protos: Mapping[str, GraphProto], node: NodeProto) -> tuple[dict[str, Graph], tuple[str, ...]]:
        """The bodies of a node, and the values captured by any of them, which are inputs of all."""
        built = {}
        captured: dict[str, None] = {}
        for key, proto in protos.items():
            scope = _Scope(f"{self.scope.place}, {key} of {node.op_type} {node.name}".rstrip(), outer=self.scope)
            inputs = tuple(value.name for value in proto.input)
            built[key] = (_Builder(scope).graph(proto, inputs), len(inputs))
            captured |= dict(scope.captured)
        names = tuple(captured)
        return {key: self._closed(graph, input_count, names) for key, (graph, input_count) in built.items()}, names

    def _closed(self, graph: Graph, input_count: int, captures: tuple[str, ...]) -> Graph:
        types = {name: self.scope.types[name] for name in captures if name in self.scope.types}
        return graph.replace(inputs=(*graph.inputs[:input_count], *captures), types={**types, **graph.types})


def _declared(proto: GraphProto) -> dict[str, ValueType]:
    types = {value.name: type_of(value.type) for value in (*proto.value_info, *proto.output, *proto.input)}
    return {name: kind for name, kind in types.items() if kind is not None}


def _trimmed(names: Iterable[str]) -> list[str]:
    """The names without absent ones at the end."""
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _hints(node: NodeProto) -> dict[str, Attribute]:
    """What the metadata of a node say of its quantisation."""
    made: dict[str, Attribute] = {}
    for entry in node.metadata_props:
        if entry.key != SCORE_SCALE:
            continue
        try:
            made[entry.key] = float(entry.value)
        except ValueError:
            got = f"{node.op_type} {node.name or node.output[0]}: metadata {entry.key} must be a number"
            raise OnnxError(f"{got}, got {entry.value!r}") from None
    return made


def constant_of(node: NodeProto) -> Array:
    """The value of a Constant node, from any of its attributes."""
    if len(node.attribute) != 1:
        raise OnnxError(f"Constant {node.output[0]}: a constant must have one value, got {len(node.attribute)}")
    attribute = node.attribute[0]
    value = attribute_of(attribute)
    match attribute.name:
        case "value" | "sparse_value":
            return np.asarray(value)
        case "value_int" | "value_ints":
            return np.array(value, np.int64)
        case "value_float" | "value_floats":
            return np.array(value, np.float32)
        case "value_string" | "value_strings":
            return np.array(value, object)
        case name:
            raise OnnxError(f"Constant {node.output[0]}: the value must be a known attribute, got {name}")
