"""Constant folding: nodes whose inputs are all constant are evaluated, as are shapes of values.

The evaluator is an argument: kernels run in `runtime`, which the compiler does not import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler.graph.errors import GraphError
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.passes.common_subexpressions import is_random

Evaluate = Callable[[Node, Sequence[Array | None]], Sequence[Array]]
MAX_GROWTH_BYTES = 1 << 22
"""A folded constant may be this much larger than the constants that it comes from."""

QUANTISATION = ("QuantizeLinear", "DequantizeLinear")
"""Operators that stay by default: those of weights are matched by the integer operators."""


def fold_constants(graph: Graph, evaluate: Evaluate, keep: Sequence[str] = QUANTISATION) -> Graph:
    """The graph with constant nodes evaluated.

    Nodes with bodies, random nodes, operators to `keep`, and results far larger than their inputs
    stay.
    """
    constants, types = dict(graph.constants), dict(graph.types)
    nodes = []
    for node in graph.nodes:
        results = None if node.op in keep else _results(node, constants, types, evaluate)
        if results is None:
            nodes.append(node)
            continue
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                constants[name] = np.asarray(value)
                types[name] = replace(_tensor(types[name]), shape=constants[name].shape)
    if len(nodes) == len(graph.nodes):
        return graph
    return graph.replace(nodes=tuple(nodes), constants=constants, types=types)


def _tensor(kind: object) -> TensorType:
    assert isinstance(kind, TensorType)
    return kind


def _results(
    node: Node, constants: dict[str, Array], types: Mapping[str, object], evaluate: Evaluate
) -> Sequence[Array] | None:
    """The results of a node that can be folded."""
    if node.op in ("Shape", "Size") and (shape := _static_shape(types.get(node.inputs[0]))) is not None:
        return (_shape_result(node, shape),)
    if node.bodies or is_random(node):
        return None
    if not all(name in constants for name in node.inputs if name):
        return None
    if not all(isinstance(types[name], TensorType) for name in node.outputs if name):
        return None
    given = [constants[name] if name else None for name in node.inputs]
    if _growth_bytes(node, given, types) > MAX_GROWTH_BYTES:
        return None
    try:
        return evaluate(node, given)
    except GraphError:
        return None  # stays; an operator that nothing implements is refused with all others later


def _static_shape(kind: object) -> tuple[int, ...] | None:
    return kind.extents if isinstance(kind, TensorType) and kind.static else None


def _shape_result(node: Node, shape: tuple[int, ...]) -> Array:
    if node.op == "Size":
        return np.array(prod(shape), np.int64)
    return np.array(shape[slice(node.attributes.get("start", 0), node.attributes.get("end"))], np.int64)


def _growth_bytes(node: Node, given: Sequence[Array | None], types: Mapping[str, object]) -> int:
    """How much larger the results are than the inputs, as far as their shapes are known."""
    results = 0
    for name in filter(None, node.outputs):
        shape = _static_shape(types[name])
        results += 8 * prod(shape) if shape is not None else 0
    return results - sum(value.nbytes for value in given if value is not None)
