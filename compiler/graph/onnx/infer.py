# SPDX-License-Identifier: Apache-2.0
"""Types of all values, by ONNX's inference."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)  # fmt: skip

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.onnx.declared import Types, clear_bodies, is_static, refines, sound_declarations
from vdla.compiler.graph.onnx.errors import OnnxError, OnnxWarning
from vdla.compiler.graph.onnx.export import export_node, export_types, imports, type_proto
from vdla.compiler.graph.onnx.load import LARGE, LoadedModel
from vdla.compiler.graph.onnx.structure import bodies_of, node_label
from vdla.compiler.graph.onnx.symbols import forget_symbols, symbols
from vdla.compiler.graph.onnx.values import type_of

_LONG = 1 << 20  # elements of a vector
_DATA_DEPENDENT = frozenset({"Compress", "MaxUnpool", "NonMaxSuppression", "NonZero", "Unique"})
_GROUPED, _STAND_IN = "GroupNormalization", "LayerNormalization"
"""ONNX infers no type of the former, and that of its first operand for the latter."""


def infer_types(loaded: LoadedModel) -> LoadedModel:
    """The model with the types of its values, as far as they follow from the inputs.

    Other values keep their declared types. A declaration that contradicts an inferred type is
    stale, and a warning names it.

    Raises:
        OnnxError: shapes or element types contradict each other.
    """
    typed = _inferred_whatever_bodies_declare(loaded)
    inferred = _types(typed.graph)
    unverifiable = _unverifiable(loaded, inferred)
    known = {name: proto for name, proto in loaded.declared.items() if name not in unverifiable or name not in inferred}
    sound = sound_declarations(known, inferred, _symbols(loaded.model.graph), loaded.name)
    loaded = replace(loaded, declared=sound)
    if not any(refines(proto, inferred.get(name)) for name, proto in sound.items()):
        return loaded.with_model(typed)
    try:
        return loaded.with_model(_inferred(loaded.with_model(_declaring(typed, sound))))
    except OnnxError:  # a declaration contradicts the types inferred from it
        return loaded.with_model(typed)


def _inferred_whatever_bodies_declare(loaded: LoadedModel) -> ModelProto:
    try:
        return _inferred(loaded)
    except OnnxError:
        bare = ModelProto()
        bare.CopyFrom(loaded.model)
        if not clear_bodies(bare.graph):
            raise
    typed = _inferred(loaded.with_model(bare))
    rule = "declared types in bodies must follow from the inputs, got stale ones, which are ignored"
    warnings.warn(f"{loaded.name}: {rule}", OnnxWarning, 2)
    return typed


def _unverifiable(loaded: LoadedModel, inferred: Types) -> frozenset[str]:
    """Results with data-dependent extents, and the values with open extents that depend on them.

    A stale extent of these would be noticed only when the model runs, or in a reshape not at all.
    """
    graph = loaded.model.graph
    fixed = {tensor.name for tensor in graph.initializer} | set(loaded.weights)
    fixed |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    moving: set[str] = set()
    data = {value.name for value in graph.input}
    for node in graph.node:
        depends = node.op_type in _DATA_DEPENDENT or not moving.isdisjoint(node.input)
        depends |= node.op_type == "Reshape" and fixed.isdisjoint(node.input[1:])
        if depends or (node.op_type == "Range" and not data.isdisjoint(node.input)):
            moving |= {name for name in node.output if not is_static(inferred.get(name))}
        if node.op_type not in ("Shape", "Size") and not data.isdisjoint(node.input):
            data.update(node.output)
    return frozenset(moving)


_INFERENCE_ERRORS = (
    shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError, MemoryError,
)  # fmt: skip


def _inferred(loaded: LoadedModel) -> ModelProto:
    values, known = has_short_vectors(loaded.model.graph), symbols(loaded.model.graph)
    try:
        typed = _with_types(loaded.model, values)
    except _INFERENCE_ERRORS as error:
        raise OnnxError(_refusal(loaded, values, str(error))) from error
    forget_symbols(typed.graph, known)
    return typed


_TRACE = re.compile(r"\[\w+Error\]|Inference error\(s\):|\(op_type:[^)]*\):")


def _refusal(loaded: LoadedModel, values: bool, text: str) -> str:
    """The sentence for a model whose types contradict each other, with the first node to blame."""
    model = ModelProto.FromString(loaded.model.SerializeToString())
    del model.graph.output[:]
    nodes = list(model.graph.node)
    known = model
    sound, wrong = 0, len(nodes)  # so many nodes are inferred, so many are not
    while wrong - sound > 1:
        middle = (sound + wrong) // 2
        del model.graph.node[:]
        model.graph.node.extend(nodes[:middle])
        try:
            known, sound = _with_types(model, values), middle
        except _INFERENCE_ERRORS as error:
            wrong, text = middle, str(error)
    said = " ".join(_TRACE.sub(" ", text).split())
    if not nodes:
        return f"{loaded.name}: types of all values must follow from the inputs, got: {said}"
    culprit = nodes[wrong - 1]
    types = {value.name: value.type for value in (*known.graph.input, *known.graph.value_info)}
    types |= {t.name: helper.make_tensor_type_proto(t.data_type, tuple(t.dims)) for t in known.graph.initializer}
    read = ", ".join(str(type_of(types[name]) or "no type") for name in culprit.input if name in types)
    rule = "its types must follow from those of its inputs"
    return f"{loaded.name}: {node_label(culprit)}: {rule}{f' ({read})' if read else ''}, got: {said}"


def _with_types(model: ModelProto, values: bool) -> ModelProto:
    """The model with inferred types; `values` infers also what follows from contents of vectors."""
    content = model.SerializeToString()
    if _GROUPED.encode() not in content:
        return _typed(content, values)
    model = ModelProto.FromString(content)
    for node in _nodes(model.graph):
        if node.op_type == _GROUPED:
            node.op_type = _STAND_IN
    typed = _typed(model.SerializeToString(), values)
    for node in _nodes(typed.graph):
        if node.op_type == _STAND_IN and any(attribute.name == "num_groups" for attribute in node.attribute):
            node.op_type = _GROUPED
    return typed


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of its bodies."""
    for node in graph.node:
        yield node
        for body in bodies_of(node):
            yield from _nodes(body)


def _typed(content: bytes, values: bool) -> ModelProto:
    if values:
        try:
            return shape_inference.infer_shapes(content, check_type=True, strict_mode=True, data_prop=True)
        except _INFERENCE_ERRORS:  # onnx takes a vector for another one of its name in another body
            pass
    return shape_inference.infer_shapes(content, check_type=True, strict_mode=True)


def _types(graph: GraphProto) -> dict[str, TypeProto]:
    return {value.name: value.type for value in (*graph.value_info, *graph.output) if value.type.WhichOneof("value")}


def _symbols(graph: GraphProto) -> Iterator[str]:
    """The symbols in the shapes of the inputs."""
    return (dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param)


def _declaring(typed: ModelProto, sound: Types) -> ModelProto:
    """The model with its declarations where the inferred types are open."""
    model, inferred = ModelProto(), _types(typed.graph)
    model.CopyFrom(typed)
    del model.graph.value_info[:]
    said = {name: proto for name, proto in sound.items() if refines(proto, inferred.get(name))}
    for value in model.graph.output:
        value.ClearField("type")
        if value.name in said:
            value.type.CopyFrom(said.pop(value.name))
    model.graph.value_info.extend(ValueInfoProto(name=name, type=proto) for name, proto in said.items())
    return model


def has_short_vectors(graph: GraphProto) -> bool:
    """Whether ONNX may propagate values; it handles even long vectors element by element."""
    shapes = (value.type.tensor_type.shape.dim for value in graph.input)
    return all(len(dims) != 1 or dims[0].dim_value <= _LONG for dims in shapes)


def inferred(graph: Graph) -> Graph:
    """As `infer_graph_types`."""
    loaded = infer_types(LoadedModel(graph.name, export_types(graph), {}, graph.inputs))
    return _retyped(graph, loaded.model.graph)


def _retyped(graph: Graph, proto: GraphProto) -> Graph:
    inferred = {value.name: type_of(value.type) for value in (*proto.value_info, *proto.output)}
    fixed = {*graph.inputs, *graph.constants}
    types = {name: kind if name in fixed else inferred.get(name) or _open(kind) for name, kind in graph.types.items()}
    bodies = {(node.output[0], a.name): a.g for node in proto.node for a in node.attribute if a.HasField("g")}
    nodes = tuple(_with_bodies(node, types, bodies) for node in graph.nodes)
    return replace(graph, nodes=nodes, types=types)


def _with_bodies(node: Node, types: Mapping[str, ValueType], protos: Mapping[tuple[str, str], GraphProto]) -> Node:
    """The node with retyped bodies; captured values have the types of the outer graph."""
    attributes = dict(node.attributes)
    for key, body in node.bodies.items():
        proto = protos[node.outputs[0], key]
        captures = node.attributes["captures"]
        count, captured = len(body.inputs) - captures, node.inputs[len(node.inputs) - captures :]
        declared = {value.name: type_of(value.type) for value in proto.input}
        inputs = {name: declared.get(name) or _open(body.types[name]) for name in body.inputs[:count]}
        pairs = zip(body.inputs[count:], captured, strict=True)
        inputs |= {name: types[outer] for name, outer in pairs if outer in types}
        attributes[key] = _retyped(replace(body, types={**body.types, **inputs}), proto)
    return replace(node, attributes=attributes)


def inferred_of_node(
    node: Node, types: Mapping[str, ValueType], constants: Mapping[str, Array]
) -> dict[str, ValueType]:
    """As `infer_node_types`."""
    proto, opsets = export_node(node), imports()
    read = list(filter(None, node.inputs))
    given = {name: type_proto(types[name]) for name in read}
    small = {name: constants[name] for name in read if name in constants and constants[name].size <= LARGE}
    data = {name: numpy_helper.from_array(np.asarray(value), name) for name, value in small.items()}
    try:
        version = next(opset.version for opset in opsets if opset.domain == proto.domain)
        stand_in = _STAND_IN if proto.op_type == _GROUPED else proto.op_type
        schema = defs.get_schema(stand_in, version, proto.domain)
        inferred = shape_inference.infer_node_outputs(schema, proto, given, data, opset_imports=opsets)
    except (defs.SchemaError, shape_inference.InferenceError, checker.ValidationError):
        return {}
    kinds = {name: type_of(kind) for name, kind in inferred.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None and name in types}


def _open(kind: ValueType) -> ValueType:
    """A type without its shape."""
    return replace(kind, shape=None) if isinstance(kind, TensorType) else kind
