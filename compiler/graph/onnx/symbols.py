# SPDX-License-Identifier: Apache-2.0
"""Symbols of shapes: every open extent of an input gets a name, symbols invented by inference are
dropped.

An axis of an input whose extent the model leaves open gets the symbol INPUT.AXIS, such as `x.0`,
under which it can be given a number. Symbols that ONNX's inference invents mean nothing to a user.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from onnx import GraphProto, TypeProto, ValueInfoProto

_OPEN = frozenset({"", "?", "*", "-1", "None"})
"""Placeholders of exporters for an extent without a name; equal ones may differ in value."""


def name_extents(graph: GraphProto, inputs: Collection[str]) -> None:
    """Name the open extents of `inputs`; other values lose invented symbols."""
    for value in _values(graph):
        for dim in _dims(value.type):
            if dim.HasField("dim_param") and dim.dim_param.strip() in _OPEN:
                dim.Clear()
    names_in_use = symbols(graph)
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim if value.name in inputs else ()):
            if dim.WhichOneof("value") is None:
                dim.dim_param = _free(f"{value.name}.{axis}", names_in_use)


def symbols(graph: GraphProto) -> set[str]:
    """The symbols in the declared shapes of a graph and its bodies."""
    return {dim.dim_param for value in _values(graph) for dim in _dims(value.type) if dim.dim_param}


def forget_symbols(graph: GraphProto, kept: Collection[str]) -> None:
    """Open the extents whose symbols are not in `kept`."""
    for value in _values(graph):
        for dim in _dims(value.type):
            if dim.dim_param and dim.dim_param not in kept:
                dim.Clear()


def _free(name: str, names_in_use: set[str]) -> str:
    while name in names_in_use:
        name += "_"
    names_in_use.add(name)
    return name


def _values(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """All typed values of a graph and of its bodies."""
    yield from chain(graph.input, graph.output, graph.value_info)
    for node in graph.node:
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _values(body)


def _dims(kind: TypeProto) -> Any:  # noqa: ANN401  classes of protobuf
    """The extents of a tensor, or of the tensors in a sequence or optional."""
    match kind.WhichOneof("value"):
        case "tensor_type":
            return kind.tensor_type.shape.dim
        case "sequence_type":
            return _dims(kind.sequence_type.elem_type)
        case "optional_type":
            return _dims(kind.optional_type.elem_type)
        case _:
            return ()
