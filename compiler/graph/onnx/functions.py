# SPDX-License-Identifier: Apache-2.0
"""Expands operators that only have a definition in ONNX's schemas, by other operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, defs, helper

from vdla.compiler.graph.graph import OPSET
from vdla.compiler.graph.onnx.inline import inlined
from vdla.compiler.graph.onnx.load import LoadedModel
from vdla.compiler.graph.onnx.support import is_implemented
from vdla.compiler.graph.onnx.upgrade import upgraded_nodes, versions_of
from vdla.compiler.graph.onnx.values import operator_name

_Types = Mapping[str, TypeProto]


def expand_functions(loaded: LoadedModel) -> LoadedModel:
    """The typed model with such operators expanded; the same object if there are none."""
    model = ModelProto()
    model.CopyFrom(loaded.model)
    if not _expand_graph(model.graph, {}, versions_of(model.opset_import)):
        return loaded
    return loaded.with_model(model)


def _expand_graph(graph: GraphProto, outer: _Types, versions: Mapping[str, int]) -> bool:
    """Expands the nodes of a graph and of its bodies in place; whether there were any."""
    types = {**outer, **_types(graph)}
    bodies = [a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH]
    changed = any([_expand_graph(body, types, versions) for body in bodies])
    nodes: list[NodeProto] = []
    expanded = False
    for node in graph.node:
        body = _definition(node, types, versions)
        expanded |= body is not None
        nodes.extend([node] if body is None else _body_nodes(node, body))
    if expanded:
        _set_nodes(graph, nodes)
    return changed or expanded


def _body_nodes(node: NodeProto, body: FunctionProto) -> list[NodeProto]:
    return upgraded_nodes(inlined(node, body), {"": OPSET, **versions_of(body.opset_import)})


def _set_nodes(graph: GraphProto, nodes: Iterable[NodeProto]) -> None:
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _types(graph: GraphProto) -> _Types:
    types = {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}
    tensors = {t.name: helper.make_tensor_type_proto(t.data_type, tuple(t.dims)) for t in graph.initializer}
    return {**types, **tensors}


def _definition(node: NodeProto, types: _Types, versions: Mapping[str, int]) -> FunctionProto | None:
    """ONNX's definition of a node that has no implementation; None if there is none."""
    if is_implemented(operator_name(node.domain, node.op_type)):
        return None
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        schema: Any = defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except defs.SchemaError:
        return None
    if schema.has_context_dependent_function:
        version = max(schema.context_dependent_function_opset_versions)
        kinds = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        content = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), kinds)
    elif schema.has_function:
        content = schema.get_function_with_opset_version(max(schema.function_opset_versions))
    else:
        content = b""
    return FunctionProto.FromString(content) if content else None
