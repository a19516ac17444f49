"""If, Loop and Scan over bodies that are closed: captured values are the last inputs of each.

Who runs a body is not known here: the evaluator runs its graph, the executor its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.runtime.numpy_operators.function import Array, Attributes, Value


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
