# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan over bodies that are closed: captured values are the last inputs of each.

Who runs a body is not known here: the evaluator runs its graph, the executor its plan. Sequences
are lists; an empty optional is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.runtime.numpy_operators.function import Array, Attributes, Function, Value


@dataclass(frozen=True, slots=True)
class Body:
    """A body as a function from its inputs to its outputs, in order.

    `row` gives shape and element type of an output, unknown extents 0: the values of no iteration
    have them.
    """

    run: Callable[[Sequence[Value]], list[Value]]
    outputs: int
    row: Callable[[int], tuple[Sequence[int], npt.DTypeLike]]


Bodies = Mapping[str, Body]
ControlFlow = Callable[[Attributes, Sequence[Value], Bodies], list[Value]]


def _if(attributes: Attributes, inputs: Sequence[Value], bodies: Bodies) -> list[Value]:
    branch = "then_branch" if np.asarray(inputs[0]).item() else "else_branch"
    return bodies[branch].run(inputs[1:])


def _loop(attributes: Attributes, inputs: Sequence[Value], bodies: Bodies) -> list[Value]:
    """States, then the values of each iteration stacked."""
    count = len(inputs) - attributes["captures"]
    trips, condition, states, captured = inputs[0], inputs[1], list(inputs[2:count]), list(inputs[count:])
    body, first = bodies["body"], 1 + len(states)
    rows: list[list[Array]] = [[] for _ in range(body.outputs - first)]
    index, going = 0, condition is None or bool(np.asarray(condition).item())
    while going and (trips is None or index < int(np.asarray(trips).item())):
        results = body.run([np.array(index, np.int64), np.array(True), *states, *captured])
        going = bool(np.asarray(results[0]).item())
        states = results[1:first]
        for row, value in zip(rows, results[first:], strict=True):
            row.append(value)
        index += 1
    return [*states, *(_stacked(body, first + place, row, 0) for place, row in enumerate(rows))]


def _scan(attributes: Attributes, inputs: Sequence[Value], bodies: Bodies) -> list[Value]:
    """States, then the values of each step stacked along their axes."""
    scanned = attributes["num_scan_inputs"]
    count = len(inputs) - attributes["captures"]
    states, captured = list(inputs[: count - scanned]), list(inputs[count:])
    sequences = _sequences(attributes, inputs[count - scanned : count])
    body, first = bodies["body"], len(states)
    rows: list[list[Array]] = [[] for _ in range(body.outputs - first)]
    for step in range(_length(sequences)):
        results = body.run([*states, *(np.asarray(sequence[step]) for sequence in sequences), *captured])
        states = results[:first]
        for row, value in zip(rows, results[first:], strict=True):
            row.append(value)
    axes = attributes.get("scan_output_axes", (0,) * len(rows))
    backwards = attributes.get("scan_output_directions", (0,) * len(rows))
    stacked = [
        _stacked(body, first + place, row[::-1] if back else row, axis)
        for place, (row, axis, back) in enumerate(zip(rows, axes, backwards, strict=True))
    ]
    return [*states, *stacked]


def _sequences(attributes: Attributes, values: Sequence[Array]) -> list[Array]:
    """The scanned inputs with their axis first, in the order of the steps."""
    axes = attributes.get("scan_input_axes", (0,) * len(values))
    backwards = attributes.get("scan_input_directions", (0,) * len(values))
    moved = [np.moveaxis(value, axis, 0) for value, axis in zip(values, axes, strict=True)]
    return [value[::-1] if back else value for value, back in zip(moved, backwards, strict=True)]


def _length(sequences: Sequence[Array]) -> int:
    lengths = {len(sequence) for sequence in sequences}
    if len(lengths) != 1:
        raise ValueError(f"scanned inputs must have one length, got {sorted(lengths)}")
    return lengths.pop()


def _stacked(body: Body, output: int, rows: Sequence[Array], axis: int) -> Array:
    if rows:
        return np.stack(rows, axis)
    shape, dtype = body.row(output)
    place = axis % (len(shape) + 1)
    return np.zeros((*shape[:place], 0, *shape[place:]), dtype)


CONTROL_FLOW: Mapping[str, ControlFlow] = {"If": _if, "Loop": _loop, "Scan": _scan}


# --- sequences and optionals ----------------------------------------------------------------------


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
