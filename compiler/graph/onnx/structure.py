"""The rules that ONNX has for names: each defined once, before its uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.compiler.graph.onnx.values import type_of

_MOST_ELEMENTS = 1 << 40


def check_structure(graph: GraphProto, place: str, outer: frozenset[str] = frozenset()) -> None:
    """Refuses a graph whose nodes are not in an order in which values precede their uses.

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
    """Refuses functions of a model whose nodes are in no order, as `check_structure` does."""
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
    for node in nodes:
        _check_texts(place, node)
        label = node_label(node)
        for name in node.input:
            if name and name not in defined and name not in outer:
                raise OnnxError(f"{place}: {label}: inputs must be computed before it, {_why(name, later)}")
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.type == AttributeProto.GRAPH else []), *attribute.graphs):
                check_structure(body, f"{place}, {attribute.name} of {label}", outer | defined)
        _define(place, filter(None, node.output), defined)


def _check_texts(place: str, node: NodeProto) -> None:
    """Names that are no UTF-8 come as bytes."""
    texts = (node.op_type, node.domain, node.name, *node.input, *node.output, *(a.name for a in node.attribute))
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise OnnxError(f"{place}: names must be UTF-8, got {wrong[0]!r}")


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
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                check_types(body)


def node_label(node: NodeProto) -> str:
    """A node in messages: its operator and its name, or that of its first result."""
    return f"{node.op_type} {node.name or next(filter(None, node.output), '')}".rstrip()


def _why(name: str, later: set[str]) -> str:
    return (
        f"got {name}, which is computed later or from itself"
        if name in later
        else f"got {name}, which nothing computes"
    )


def _define(place: str, names: Iterable[str], defined: set[str]) -> None:
    for name in names:
        if not name or not isinstance(name, str):
            raise OnnxError(f"{place}: every value must have a name, got {name!r}")
        if name in defined:
            raise OnnxError(f"{place}: every value must be defined once, got {name} twice")
        defined.add(name)
