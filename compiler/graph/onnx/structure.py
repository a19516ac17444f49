# SPDX-License-Identifier: Apache-2.0
"""The rules that ONNX has for names: each defined once, before its uses.

Some quantisers do not keep the order; nodes are put in order where that is possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, defs

from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.compiler.graph.onnx.values import type_of

_MOST_ELEMENTS = 1 << 40


def check_structure(graph: GraphProto, place: str, outer: frozenset[str] = frozenset()) -> None:
    """Refuses a graph whose nodes cannot be put in an order in which values precede their uses.

    Raises:
        OnnxError: a value is missing, defined twice, or computed from itself.
    """
    defined: set[str] = set()
    _define(place, (value.name for value in graph.input), defined)
    constants = [tensor.name for tensor in graph.initializer]
    constants += [sparse.values.name for sparse in graph.sparse_initializer]
    _define(place, (name for name in constants if name not in defined), defined)
    _check_nodes(graph.node, place, defined, outer)
    for value in graph.output:
        if value.name not in defined and value.name not in outer:
            raise OnnxError(f"{place}: outputs must be values of the graph, got {value.name or 'an empty name'}")


def check_functions(functions: Iterable[FunctionProto], place: str) -> None:
    """Refuses functions of a model whose nodes have no order, as `check_structure` does."""
    for function in functions:
        where = f"{place}, function {function.name!s}"
        defined: set[str] = set()
        _define(where, function.input, defined)
        _check_nodes(function.node, where, defined, frozenset())
        missing = [name for name in function.output if name not in defined]
        if missing:
            raise OnnxError(f"{where}: outputs must be values of the function, got {missing[0]}")


def _check_nodes(nodes: Sequence[NodeProto], place: str, defined: set[str], outer: frozenset[str]) -> None:
    """Checks the nodes in their order; their results are added to `defined`."""
    later = {name for node in nodes for name in node.output if name}
    for node in _in_order(nodes):
        _check_texts(place, node)
        label = node_label(node)
        for name in node.input:
            if name and name not in defined and name not in outer:
                raise OnnxError(f"{place}: {label}: inputs must be computed before it, {_why(name, later)}")
        for attribute in node.attribute:
            for body in _bodies(attribute):
                check_structure(body, f"{place}, {attribute.name} of {label}", outer | defined)
        _define(place, filter(None, node.output), defined)


def _check_texts(place: str, node: NodeProto) -> None:
    """Names that are no UTF-8 come as bytes."""
    texts = (node.op_type, node.domain, node.name, *node.input, *node.output, *(a.name for a in node.attribute))
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise OnnxError(f"{place}: names must be UTF-8, got {wrong[0]!r}")


def bodies_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node has as attributes."""
    for attribute in node.attribute:
        yield from _bodies(attribute)


def _bodies(attribute: AttributeProto) -> Sequence[GraphProto]:
    return (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)


# --- the order of nodes


def put_in_order(nodes: MutableSequence[NodeProto]) -> None:
    """Sort nodes, and those of bodies, so that each comes after those whose results it reads."""
    for node in nodes:
        for body in bodies_of(node):
            put_in_order(body.node)
    ordered = _in_order(nodes)
    if ordered is not nodes:
        copies = [NodeProto.FromString(node.SerializeToString()) for node in ordered]
        del nodes[:]
        nodes.extend(copies)


def _in_order(nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes, each after those whose results it reads; as they are where they form a cycle."""
    places = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = {index: {places[name] for name in _reads(node) if name in places} for index, node in enumerate(nodes)}
    if all(place < index for index, needed in needs.items() for place in needed):
        return nodes
    try:
        return [nodes[index] for index in TopologicalSorter(needs).static_order()]
    except CycleError:
        return nodes


def _reads(node: NodeProto) -> set[str]:
    """The values that a node reads, those that its bodies capture included."""
    names = set(node.input)
    for body in bodies_of(node):
        inner = {value.name for value in body.input} | {name for part in body.node for name in part.output}
        captured = {value.name for value in body.output}.union(*(_reads(part) for part in body.node))
        names |= captured - inner
    return names


def check_types(graph: GraphProto) -> None:
    """Refuses unknown element types; removes negative extents, by which some exporters mean any.

    Raises:
        OnnxError: an element type that ONNX does not have.
    """
    for value in (*graph.input, *graph.output, *graph.value_info):
        try:
            type_of(value.type)
        except OnnxError as error:
            raise OnnxError(f"value {value.name}: {error}") from error
        extents = value.type.tensor_type.shape.dim
        for dim in extents:
            if dim.dim_value < 0:
                dim.Clear()
        if prod(max(dim.dim_value, 1) for dim in extents) > _MOST_ELEMENTS:
            shape = [dim.dim_value for dim in extents]
            raise OnnxError(f"value {value.name}: extents must be those of at most 2^40 elements, got {shape}")
    for node in graph.node:
        for body in bodies_of(node):
            check_types(body)


def node_label(node: NodeProto) -> str:
    """A node in messages: its operator and its name, or that of its first result."""
    return f"{node.op_type} {node.name or next(filter(None, node.output), '')}".rstrip()


def _why(name: str, later: set[str]) -> str:
    return f"got {name}, which is computed from itself" if name in later else f"got {name}, which nothing computes"


def _define(place: str, names: Iterable[str], defined: set[str]) -> None:
    for name in names:
        if not name or not isinstance(name, str):
            raise OnnxError(f"{place}: every value must have a name, got {name!r}")
        if name in defined:
            raise OnnxError(f"{place}: every value must be defined once, got {name} twice")
        defined.add(name)


# --- schemas --------------------------------------------------------------------------------------


_SINGLE = "Single"


def check_nodes(nodes: Iterable[NodeProto], versions: Mapping[str, int], place: str) -> None:
    """Refuses nodes that break the rules of their operators; unknown operators pass.

    Raises:
        OnnxError: a wrong number of inputs or outputs, an attribute of a wrong type or missing.
    """
    for node in nodes:
        domain = "" if node.domain == "ai.onnx" else node.domain
        schema = _schema(node.op_type, domain, versions.get(domain, 1))
        if schema is not None:
            _check_node(node, schema, f"{place}: {node_label(node)}")
        for attribute in node.attribute:
            bodies = [*attribute.graphs, *([attribute.g] if attribute.type == AttributeProto.GRAPH else [])]
            for body in bodies:
                check_nodes(body.node, versions, f"{place}, {attribute.name} of {node_label(node)}")


@cache
def _schema(op: str, domain: str, version: int) -> Any:  # noqa: ANN401  a class of onnx without types
    try:
        return defs.get_schema(op, version, domain) if 0 < version < 1 << 31 else None
    except defs.SchemaError:
        return None


def _check_node(node: NodeProto, schema: Any, where: str) -> None:  # noqa: ANN401
    for what, names, least, most in (
        ("inputs", node.input, schema.min_input, schema.max_input),
        ("outputs", node.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}" if most < 1 << 30 else f"at least {least}"
            raise OnnxError(f"{where}: the number of {what} must be {wanted}, got {len(names)}")
    for formal, name in zip(schema.inputs, node.input, strict=False):
        if not name and formal.option.name == _SINGLE:
            raise OnnxError(f"{where}: input {formal.name} must be given, got none")
    _check_attributes(node, schema, where)


def _check_attributes(node: NodeProto, schema: Any, where: str) -> None:  # noqa: ANN401
    names = [attribute.name for attribute in node.attribute]
    if len(set(names)) != len(names):
        raise OnnxError(f"{where}: attributes must have different names, got {', '.join(names)}")
    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        if formal is not None and attribute.type != formal.type.value and not attribute.ref_attr_name:
            got = AttributeProto.AttributeType.Name(attribute.type)
            raise OnnxError(f"{where}: attribute {attribute.name} must be of type {formal.type.name}, got {got}")
    missing = [name for name, formal in schema.attributes.items() if formal.required and name not in names]
    if missing:
        raise OnnxError(f"{where}: attribute {missing[0]} must be given, got none")
