# SPDX-License-Identifier: Apache-2.0
"""Graphs as ONNX models of `OPSET`, for ONNX's type inference.

Large constants become inputs, as their contents decide no type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TypeProto,
    ValueInfoProto,
    checker,
    helper,
    numpy_helper,
    shape_inference,
)

from vdla.compiler.graph.attributes import DTYPE_ATTRIBUTES
from vdla.compiler.graph.graph import OPSET, Attribute, Graph, Node, OptionalType, SequenceType, TensorType, ValueType
from vdla.compiler.graph.integer.attention import SCORE_SCALE
from vdla.compiler.graph.onnx.load import LARGE
from vdla.compiler.graph.onnx.values import dtype_code

ML_OPSET = 4
_OLDEST = 21  # the first with quantisation of blocks and of 16 bits; later ones differ in types
_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview")


def export_types(graph: Graph) -> ModelProto:
    """A model with the nodes and the input types of a graph; other types are left to inference."""
    return helper.make_model(_graph(graph), opset_imports=imports())


def export_model(graph: Graph) -> ModelProto:
    """A graph of ONNX's operators as a model, with its constants and the types of its outputs.

    Its opset is the oldest from _OLDEST on that has all its operators with these attributes and
    types, so that other tools can read it.
    """
    made = _graph(graph, whole=True)
    for output in made.output:
        output.type.CopyFrom(type_proto(graph.types[output.name]))
    domains = sorted({node.domain for node in made.node if node.domain})
    for opset in range(_OLDEST, OPSET):
        model = _model(made, opset, domains)
        if _is_valid(model):
            return model
    return _model(made, OPSET, domains)


def _model(graph: GraphProto, opset: int, domains: Sequence[str]) -> ModelProto:
    used = [helper.make_opsetid("", opset), *(entry for entry in imports() if entry.domain in domains)]
    version = helper.find_min_ir_version_for(used, ignore_unknown=True)
    return helper.make_model(graph, opset_imports=used, ir_version=version, producer_name="vdla")


def _is_valid(model: ModelProto) -> bool:
    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError):
        return False
    return True


def imports() -> list[OperatorSetIdProto]:
    """All domains, at their newest opsets."""
    return [
        helper.make_opsetid("", OPSET),
        *(helper.make_opsetid(domain, 1) for domain in _DOMAINS[1:]),
        helper.make_opsetid("ai.onnx.ml", ML_OPSET),
    ]


def _graph(graph: Graph, whole: bool = False) -> GraphProto:
    """A graph; large constants are inputs unless the `whole` graph is asked for."""
    made = GraphProto(name=graph.name or "graph")
    made.input.extend(_value(graph, name) for name in graph.inputs)
    for name, value in graph.constants.items():
        if whole or value.size <= LARGE:
            made.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        else:
            made.input.append(_value(graph, name))
    made.node.extend(export_node(node, whole) for node in graph.nodes)
    given = {*graph.inputs, *graph.constants}  # ONNX infers no types of results of bodies that no node makes
    made.output.extend(_value(graph, name) if name in given else ValueInfoProto(name=name) for name in graph.outputs)
    return made


def _value(graph: Graph, name: str) -> ValueInfoProto:
    return ValueInfoProto(name=name, type=type_proto(graph.types[name]))


def type_proto(kind: ValueType) -> TypeProto:
    """A type as ONNX writes it."""
    match kind:
        case TensorType():
            return helper.make_tensor_type_proto(dtype_code(kind.dtype), kind.shape)
        case SequenceType():
            return helper.make_sequence_type_proto(type_proto(kind.element))
        case OptionalType():
            return helper.make_optional_type_proto(type_proto(kind.element))


def export_node(node: Node, whole: bool = False) -> NodeProto:
    """A node as ONNX writes it; values captured by its bodies are not among its inputs.

    Bodies are without their large constants unless they are asked for `whole`.
    """
    domain = next((domain for domain in _DOMAINS if node.op.startswith(f"{domain}.")), "")
    made = NodeProto(op_type=node.op.removeprefix(f"{domain}."), domain=domain, name=node.name)
    captures = node.attributes.get("captures", 0) if node.bodies else 0
    made.input.extend(node.inputs[: len(node.inputs) - captures])
    made.output.extend(node.outputs)
    made.attribute.extend(_attributes(node, captures, whole))
    if SCORE_SCALE in node.attributes:
        made.metadata_props.add(key=SCORE_SCALE, value=repr(node.attributes[SCORE_SCALE]))
    return made


def _attributes(node: Node, captures: int, whole: bool) -> Iterator[AttributeProto]:
    for key, value in node.attributes.items():
        if isinstance(value, Graph):
            yield helper.make_attribute(key, _body(value, node.inputs[len(node.inputs) - captures :], whole))
        elif key != SCORE_SCALE and not (key == "captures" and node.bodies):
            yield _attribute(key, value)


def _body(graph: Graph, captured: Sequence[str], whole: bool) -> GraphProto:
    """A body; `captured` are the values that it takes from the graph around it, by the names there.

    A pass may have renamed those. Large constants are values of known types: their node gives none.
    """
    made, first = _graph(graph, whole), len(graph.inputs) - len(captured)
    made.value_info.extend(made.input[len(graph.inputs) :])
    del made.input[first:]
    pairs = zip(captured, graph.inputs[first:], strict=True)
    renamed = [helper.make_node("Identity", [outer], [inner]) for outer, inner in pairs if outer != inner]
    nodes = [*renamed, *made.node]
    del made.node[:]
    made.node.extend(nodes)
    return made


def _attribute(key: str, value: Attribute) -> AttributeProto:
    if key in DTYPE_ATTRIBUTES and isinstance(value, str):
        return helper.make_attribute(key, dtype_code(value) if value else 0)
    if isinstance(value, TensorType | SequenceType | OptionalType):
        return helper.make_attribute(key, type_proto(value))
    if isinstance(value, np.ndarray):
        return helper.make_attribute(key, numpy_helper.from_array(value))
    if isinstance(value, tuple) and not value:
        return AttributeProto(name=key, type=AttributeProto.INTS)
    plain: Any = list(value) if isinstance(value, tuple) else value
    return helper.make_attribute(key, plain)
