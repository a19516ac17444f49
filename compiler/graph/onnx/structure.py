"""The rules that ONNX has for names: each defined once, before its uses."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import AttributeProto, GraphProto, NodeProto

from vdla.compiler.graph.onnx.errors import OnnxError


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
    later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        label = node_label(node)
        for name in node.input:
            if name and name not in defined and name not in outer:
                raise OnnxError(f"{place}: {label}: inputs must be computed before it, {_why(name, later)}")
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.type == AttributeProto.GRAPH else []), *attribute.graphs):
                check_structure(body, f"{place}, {attribute.name} of {label}", outer | defined)
        _define(place, filter(None, node.output), defined)
    for value in graph.output:
        if value.name not in defined and value.name not in outer:
            raise OnnxError(f"{place}: outputs must be values of the graph, got {value.name or 'an empty name'}")


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
        if not name:
            raise OnnxError(f"{place}: every value must have a name, got an empty one")
        if name in defined:
            raise OnnxError(f"{place}: every value must be defined once, got {name} twice")
        defined.add(name)
