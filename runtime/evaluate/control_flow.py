"""If, Loop and Scan: their bodies are closed, and take the captured values as their last inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.runtime.evaluate.errors import EvaluationError
from vdla.runtime.numpy_operators import Value

Body = Callable[[Sequence[Value]], list[Value]]
Bodies = Callable[[Graph], Body]


def _if(node: Node, inputs: Sequence[Value], bodies: Bodies) -> list[Value]:
    branch = "then_branch" if np.asarray(inputs[0]).item() else "else_branch"
    return bodies(node.attributes[branch])(inputs[1:])


def _loop(node: Node, inputs: Sequence[Value], bodies: Bodies) -> list[Value]:
    """States, then the values of each iteration stacked."""
    count = len(inputs) - node.attributes["captures"]
    trips, condition, states, captured = inputs[0], inputs[1], list(inputs[2:count]), list(inputs[count:])
    graph = node.attributes["body"]
    body = bodies(graph)
    rows: list[list[Array]] = [[] for _ in graph.outputs[1 + len(states) :]]
    index, going = 0, condition is None or bool(np.asarray(condition).item())
    while going and (trips is None or index < int(np.asarray(trips).item())):
        results = body([np.array(index, np.int64), np.array(True), *states, *captured])
        going = bool(np.asarray(results[0]).item())
        states = results[1 : 1 + len(states)]
        for row, value in zip(rows, results[1 + len(states) :], strict=True):
            row.append(value)
        index += 1
    names = graph.outputs[1 + len(states) :]
    return [*states, *(_stacked(graph, name, row, 0) for name, row in zip(names, rows, strict=True))]


def _scan(node: Node, inputs: Sequence[Value], bodies: Bodies) -> list[Value]:
    """States, then the values of each step stacked along their axes."""
    scanned = node.attributes["num_scan_inputs"]
    count = len(inputs) - node.attributes["captures"]
    states, captured = list(inputs[: count - scanned]), list(inputs[count:])
    sequences = _sequences(node, inputs[count - scanned : count])
    graph = node.attributes["body"]
    body = bodies(graph)
    names = graph.outputs[len(states) :]
    rows: list[list[Array]] = [[] for _ in names]
    for step in range(_length(node, sequences)):
        results = body([*states, *(np.asarray(sequence[step]) for sequence in sequences), *captured])
        states = results[: len(states)]
        for row, value in zip(rows, results[len(states) :], strict=True):
            row.append(value)
    axes = node.attributes.get("scan_output_axes", (0,) * len(rows))
    backwards = node.attributes.get("scan_output_directions", (0,) * len(rows))
    stacked = [
        _stacked(graph, name, row[::-1] if back else row, axis)
        for name, row, axis, back in zip(names, rows, axes, backwards, strict=True)
    ]
    return [*states, *stacked]


def _sequences(node: Node, values: Sequence[Array]) -> list[Array]:
    """The scanned inputs with their axis first, in the order of the steps."""
    axes = node.attributes.get("scan_input_axes", (0,) * len(values))
    backwards = node.attributes.get("scan_input_directions", (0,) * len(values))
    moved = [np.moveaxis(value, axis, 0) for value, axis in zip(values, axes, strict=True)]
    return [value[::-1] if back else value for value, back in zip(moved, backwards, strict=True)]


def _length(node: Node, sequences: Sequence[Array]) -> int:
    lengths = {len(sequence) for sequence in sequences}
    if len(lengths) != 1:
        raise EvaluationError(f"{node.label}: scanned inputs must have one length, got {sorted(lengths)}")
    return lengths.pop()


def _stacked(graph: Graph, name: str, rows: Sequence[Array], axis: int) -> Array:
    if rows:
        return np.stack(rows, axis)
    kind = graph.types.get(name)
    if not isinstance(kind, TensorType):
        raise EvaluationError(f"{graph.name}: {name} must have a known type where there is no iteration, got none")
    row = np.zeros(tuple(extent if isinstance(extent, int) else 0 for extent in kind.shape or ()), kind.dtype)
    return np.stack([row], axis).take([], axis)


ControlFlow = Callable[[Node, Sequence[Value], Bodies], list[Value]]

CONTROL_FLOW: Mapping[str, ControlFlow] = {"If": _if, "Loop": _loop, "Scan": _scan}
