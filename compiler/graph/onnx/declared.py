# SPDX-License-Identifier: Apache-2.0
"""The types that a model declares for its results, compared with the inferred types.

Tools that change the shape of an input, or cut a model, leave stale declarations downstream.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from onnx import AttributeProto, GraphProto, TypeProto

from vdla.compiler.graph.graph import Extent, TensorType, ValueType
from vdla.compiler.graph.onnx.errors import OnnxWarning
from vdla.compiler.graph.onnx.values import type_of

_MOST_NAMED = 3

Types = Mapping[str, TypeProto]


def sound_declarations(declared: Types, inferred: Types, symbols: Iterable[str], place: str) -> dict[str, TypeProto]:
    """The declarations that agree with the inferred types; a warning names the stale ones.

    `symbols` are those of the inputs; inference invents others for unknown extents.
    """
    known, sound, stale = frozenset(symbols), {}, []
    for name, proto in declared.items():
        stated = type_of(proto)
        kind = type_of(inferred[name]) if name in inferred else None
        if stated is None:
            continue
        if kind is None or _agree(stated, kind, known):
            sound[name] = proto
        else:
            stale.append(f"{name} is {kind}, not {stated}")
    if stale:
        omitted = f" and {len(stale) - _MOST_NAMED} others" if len(stale) > _MOST_NAMED else ""
        rule = f"declared types must follow from the inputs, got stale ones, which are ignored ({len(stale)})"
        warnings.warn(f"{place}: {rule}: {'; '.join(stale[:_MOST_NAMED])}{omitted}", OnnxWarning, 2)
    return sound


def refines(declared: TypeProto, inferred: TypeProto | None) -> bool:
    """Whether a sound declaration is more precise than the inferred type."""
    declared_type, kind = type_of(declared), None if inferred is None else type_of(inferred)
    if not isinstance(declared_type, TensorType) or not isinstance(kind, TensorType):
        return kind is None
    if kind.shape is None or declared_type.shape is None:
        return declared_type.shape is not None
    return any(
        isinstance(one, int) and not isinstance(two, int)
        for one, two in zip(declared_type.shape, kind.shape, strict=True)
    )


def is_static(inferred: TypeProto | None) -> bool:
    """Whether all extents of a tensor are inferred."""
    kind = None if inferred is None else type_of(inferred)
    return isinstance(kind, TensorType) and kind.static


def clear_bodies(graph: GraphProto) -> bool:
    """Removes declared types of results and shapes of inputs in bodies; whether there are any."""
    bodies = [a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH]
    for body in bodies:
        clear_bodies(body)
        del body.value_info[:]
        for value in body.output:
            value.ClearField("type")
        for value in body.input:
            value.type.tensor_type.ClearField("shape")
    return bool(bodies)


def _agree(stated: ValueType, inferred: ValueType, symbols: frozenset[str]) -> bool:
    if not isinstance(stated, TensorType) or not isinstance(inferred, TensorType):
        return type(stated) is type(inferred)
    if stated.dtype != inferred.dtype:
        return False
    if stated.shape is None or inferred.shape is None:
        return True
    pairs = zip(stated.shape, inferred.shape, strict=False)
    return len(stated.shape) == len(inferred.shape) and all(_fit(one, two, symbols) for one, two in pairs)


def _fit(stated: Extent, inferred: Extent, symbols: frozenset[str]) -> bool:
    """Whether a declared extent agrees with the inferred one: a number differs from a symbol of the
    inputs.
    """
    if isinstance(stated, int):
        return stated == inferred if isinstance(inferred, int) else inferred not in symbols
    return True
