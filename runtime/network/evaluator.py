# SPDX-License-Identifier: Apache-2.0
"""A graph on arrays, node by node; values are dropped after their last use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.runtime.network.evaluate_nodes import EvaluationError, Prefer, evaluate_node, shared_cache
from vdla.runtime.network.node_kernels import KernelCache
from vdla.runtime.numpy_operators import CONTROL_FLOW, Body, Value

Observe = Callable[[str, Value], None]


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Value],
    *,
    values: Iterable[str] | None = None,
    prefer: Prefer | str = Prefer.KERNEL,
    observe: Observe | None = None,
) -> dict[str, Value]:
    """The outputs of a graph, or the `values` asked for, by name.

    `prefer` chooses where an operator has both a kernel and a NumPy function. `observe` is called
    with the name and the value of every result of a node, of this graph and not of its bodies.

    Raises:
        EvaluationError: inputs are missing or of other types, or a node cannot be evaluated.
    """
    return Evaluator(graph, prefer=prefer).run(inputs, values=values, observe=observe)


class Evaluator:
    """A graph ready to be evaluated many times."""

    def __init__(
        self, graph: Graph, *, prefer: Prefer | str = Prefer.KERNEL, kernels: KernelCache | None = None
    ) -> None:
        self.graph = graph
        self.prefer = Prefer(prefer)
        self.kernels = kernels if kernels is not None else shared_cache()
        self._bodies: dict[int, Evaluator] = {}
        self._last = {name: index for index, node in enumerate(graph.nodes) for name in node.inputs if name}

    def run(
        self, inputs: Mapping[str, Value], *, values: Iterable[str] | None = None, observe: Observe | None = None
    ) -> dict[str, Value]:
        """As `evaluate`."""
        given = {name: _plain(value) for name, value in inputs.items()}
        _check_inputs(self.graph, given)
        return self._run(given, self.graph.outputs if values is None else tuple(values), observe)

    def _body(self, graph: Graph) -> Body:
        entry = self._bodies.get(id(graph))
        if entry is None:
            entry = self._bodies[id(graph)] = Evaluator(graph, prefer=self.prefer, kernels=self.kernels)
        evaluator = entry

        def run(given: Sequence[Value]) -> list[Value]:
            results = evaluator._run(dict(zip(graph.inputs, given, strict=True)), graph.outputs, None)
            return [results[name] for name in graph.outputs]

        return Body(run, len(graph.outputs), lambda output: _row(graph, graph.outputs[output]))

    def _run(self, inputs: Mapping[str, Value], wanted: Sequence[str], observe: Observe | None) -> dict[str, Value]:
        graph, kept = self.graph, set(wanted)
        state: dict[str, Value] = {**graph.constants, **inputs}
        for index, node in enumerate(graph.nodes):
            results = self._node(node, [state[name] if name else None for name in node.inputs])
            for name, value in zip(node.outputs, results, strict=False):
                if name:
                    state[name] = value
                    if observe is not None:
                        observe(name, value)
            for name in node.inputs:
                if self._last.get(name) == index and name not in kept:
                    state.pop(name, None)
        missing = [name for name in wanted if name not in state]
        if missing:
            raise EvaluationError(f"{graph.name}: values must be values of the graph, got {', '.join(missing)}")
        return {name: state[name] for name in wanted}

    def _node(self, node: Node, inputs: Sequence[Value]) -> Sequence[Value]:
        if node.op in CONTROL_FLOW:
            return self._controlled(node, inputs)
        constant = [name in self.graph.constants for name in node.inputs]
        types = [self.graph.types.get(name) if name else None for name in node.outputs]
        given = [self.graph.types.get(name) if name else None for name in node.inputs]
        return evaluate_node(node, inputs, constant, types, given, prefer=self.prefer, kernels=self.kernels)

    def _controlled(self, node: Node, inputs: Sequence[Value]) -> Sequence[Value]:
        bodies = {key: self._body(graph) for key, graph in node.bodies.items()}
        try:
            return CONTROL_FLOW[node.op](node.attributes, inputs, bodies)
        except EvaluationError:
            raise
        except (ValueError, IndexError, TypeError, AttributeError, MemoryError) as error:  # of values that do not fit
            raise EvaluationError(f"{node.label}: {error}") from error


def _row(graph: Graph, name: str) -> tuple[tuple[int, ...], str]:
    """Shape and element type of a value, unknown extents 0."""
    kind = graph.types.get(name)
    if not isinstance(kind, TensorType):
        raise EvaluationError(f"{graph.name}: {name} must have a known type for a loop without iterations, got none")
    return tuple(extent if isinstance(extent, int) else 0 for extent in kind.shape or ()), kind.dtype


def _plain(value: Value) -> Value:
    """NumPy's scalars as arrays, also in sequences."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return np.asarray(value) if isinstance(value, np.generic) else value


def _check_inputs(graph: Graph, inputs: Mapping[str, Value]) -> None:
    if set(inputs) != set(graph.inputs):
        got = ", ".join(inputs) or "none"
        raise EvaluationError(f"{graph.name}: inputs must be {', '.join(graph.inputs) or 'none'}, got {got}")
    for name, value in inputs.items():
        kind = graph.types.get(name)
        if isinstance(kind, TensorType) and isinstance(value, np.ndarray) and not _fits(kind, value):
            got = f"{_dtype(value)}{list(value.shape)}"
            raise EvaluationError(f"{graph.name}: input {name} must be {kind}, got {got}")


def _fits(kind: TensorType, value: Array) -> bool:
    if _dtype(value) != kind.dtype:
        return False
    if kind.shape is None:
        return True
    pairs = zip(kind.shape, value.shape, strict=False)
    return len(kind.shape) == value.ndim and all(not isinstance(e, int) or e == got for e, got in pairs)


def _dtype(value: Array) -> str:
    return "str" if value.dtype.kind in "OUS" else value.dtype.name
