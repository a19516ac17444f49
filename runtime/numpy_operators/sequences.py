"""Sequences, which are lists, and optionals, whose empty value is None."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function, Value

_Result = tuple[Value, ...]


def _identity(attributes: Attributes, value: Value) -> _Result:
    return (value,)


def _sequence_at(attributes: Attributes, sequence: list[Array], position: Array) -> _Result:
    return (sequence[position.item()],)


def _sequence_construct(attributes: Attributes, *values: Array) -> _Result:
    return (list(values),)


def _sequence_empty(attributes: Attributes) -> _Result:
    return ([],)


def _sequence_erase(attributes: Attributes, sequence: list[Array], position: Array | None = None) -> _Result:
    kept = list(sequence)
    del kept[-1 if position is None else position.item()]
    return (kept,)


def _sequence_insert(
    attributes: Attributes, sequence: list[Array], value: Array, position: Array | None = None
) -> _Result:
    grown = list(sequence)
    grown.insert(len(grown) if position is None else position.item(), value)
    return (grown,)


def _sequence_length(attributes: Attributes, sequence: list[Array]) -> _Result:
    return (np.array(len(sequence), np.int64),)


def _split_to_sequence(attributes: Attributes, value: Array, split: Array | None = None) -> _Result:
    axis = attributes.get("axis", 0)
    extent = value.shape[axis]
    if split is None:
        pieces = np.split(value, extent, axis)
        return (pieces if attributes.get("keepdims", 1) else [piece.squeeze(axis) for piece in pieces],)
    if split.ndim:
        return (np.split(value, np.cumsum(split)[:-1], axis),)
    return (np.split(value, range(split.item(), extent, split.item()), axis),)


def _concat_from_sequence(attributes: Attributes, sequence: list[Array]) -> _Result:
    join = np.stack if attributes.get("new_axis", 0) else np.concatenate
    return (join(sequence, axis=attributes["axis"]),)


def _optional(attributes: Attributes, value: Value = None) -> _Result:
    return (value,)


def _has_element(attributes: Attributes, value: Value = None) -> _Result:
    return (np.array(value is not None),)


def _get_element(attributes: Attributes, value: Value) -> _Result:
    if value is None:
        raise ValueError("the optional must have a value, got none")
    return (value,)


SEQUENCES: Mapping[str, Function] = {
    "ConcatFromSequence": _concat_from_sequence,
    "Identity": _identity,
    "Optional": _optional,
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _sequence_at,
    "SequenceConstruct": _sequence_construct,
    "SequenceEmpty": _sequence_empty,
    "SequenceErase": _sequence_erase,
    "SequenceInsert": _sequence_insert,
    "SequenceLength": _sequence_length,
    "SplitToSequence": _split_to_sequence,
}
