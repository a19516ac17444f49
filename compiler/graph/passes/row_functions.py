# SPDX-License-Identifier: Apache-2.0
"""Softmax, norms and rotations between quantised values as operators of integers, for machines with
plug-ins that compute them.

`vdla.QRowSoftmax`, `vdla.QRowNorm` and `vdla.QRotary` are defined in integers throughout, so that
their results do not depend on what runs them. They differ from the float operators by a step of 8
bits at most places, so that no machine without such a plug-in has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import (
    NotIntegerError,
    QuantisedActivation,
    activation,
    decline,
    multipliers,
)
from vdla.compiler.graph.integer.result import QuantisedResult, quantised_result
from vdla.compiler.graph.machine.row_definitions import ROW_FUNCTIONS, row_definition
from vdla.compiler.graph.passes.common_subexpressions import merge_common_subexpressions
from vdla.compiler.graph.passes.rotations import rotation
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite, without_dead_code
from vdla.compiler.operators.definitions import Definition, DefinitionError, softmax_factor
from vdla.compiler.operators.definitions.row_norm import MEAN_BITS, NORMAL_BITS
from vdla.compiler.operators.definitions.row_softmax import SHARE_BITS

Accepts = Callable[[Definition], bool]
_MOST_BIAS = (1 << 30) - 1
_LEAST_SHARE = 2.0**-18
"""The least factor of a normal number, of the shift beside it."""


def row_functions(graph: Graph, accepts: Accepts) -> Graph:
    """The graph with operators of integers where `accepts` their definitions."""

    def rule(graph: Graph, node: Node) -> Replacement | None:
        result = quantised_result(graph, node)
        if result is None or result.producer is None:
            return None
        try:
            made = _softmax(result) or _layer_norm(result) or _rms_norm(result) or rotation(result)
        except NotIntegerError:
            return None
        return made if made is not None and _is_accepted(graph, made, accepts) else None

    made = without_dead_code(rewrite(graph, (rule,)))
    has_rotations = any(node.op == "vdla.QRotary" for node in made.nodes)
    return merge_common_subexpressions(made) if has_rotations else made  # layers have the same tables


def _is_accepted(graph: Graph, made: Replacement, accepts: Accepts) -> bool:
    node = next(node for node in made.nodes if node.op in ROW_FUNCTIONS)
    try:
        return accepts(row_definition(node.op, graph.tensor(node.inputs[0]).extents, node.attributes))
    except DefinitionError:
        return False


def _rows(graph: Graph, name: str) -> QuantisedActivation:
    """A quantised value of known extents, in rows of its last dimension."""
    x = activation(graph, name)
    kind = graph.tensor(x.name)
    if not kind.static or len(kind.extents) < 2 or 0 in kind.extents:
        decline("have rows of known extents")
    return x


def _of_last_axis(graph: Graph, node: Node) -> None:
    rank = len(graph.tensor(node.inputs[0]).shape or ())
    if int(node.attribute("axis")) not in (-1, rank - 1):
        decline("go along the last dimension")


def _read_once(graph: Graph, *names: str) -> None:
    if any(graph.readers(name) != 1 or name in graph.outputs for name in names):
        decline("have float values that nothing else reads")


# --- softmax --------------------------------------------------------------------------------------


def _softmax(result: QuantisedResult) -> Replacement | None:
    """Q(Softmax(DQ(x) * scale))."""
    graph, node = result.graph, result.producer
    if node is None or node.op != "Softmax":
        return None
    _of_last_axis(graph, node)
    _read_once(graph, node.outputs[0])
    factor, source, before = _factor_before(graph, node.inputs[0])
    x = _rows(graph, source)
    steps = softmax_factor(float(x.scale) * factor)
    attributes: dict[str, Any] = {"factor": steps, **multipliers(result.from_scale(np.float32(2.0**-SHARE_BITS)))}
    return result.becomes("vdla.QRowSoftmax", (x.name,), attributes, (*before, node))


def _factor_before(graph: Graph, name: str) -> tuple[float, str, tuple[Node, ...]]:
    """The constant factor by which a value is multiplied, the value, and the node between."""
    node = graph.producers.get(name)
    if node is None or node.op not in ("Mul", "Div"):
        return 1.0, name, ()
    _read_once(graph, name)
    for at in (1, 0)[: 2 if node.op == "Mul" else 1]:
        value = graph.constant(node.inputs[at])
        if value is not None and value.size == 1 and np.isfinite(value).all() and value.item() > 0:
            factor = float(value.item())
            return factor if node.op == "Mul" else 1 / factor, node.inputs[1 - at], (node,)
    return 1.0, name, ()


# --- norms ----------------------------------------------------------------------------------------


def _layer_norm(result: QuantisedResult) -> Replacement | None:
    """Q(LayerNormalization(DQ(x)))."""
    graph, node = result.graph, result.producer
    if node is None or node.op != "LayerNormalization" or any(node.outputs[1:]):
        return None
    _of_last_axis(graph, node)
    _read_once(graph, node.outputs[0])
    x = _rows(graph, node.inputs[0])
    features = graph.tensor(x.name).extents[-1]
    scale = _by_feature(graph, node.inputs[1], features)
    shift = _by_feature(graph, node.inputs[2], features) if len(node.inputs) > 2 and node.inputs[2] else None
    return _norm(result, x, (node,), scale, shift, float(node.attribute("epsilon")), centred=1)


def _rms_norm(result: QuantisedResult) -> Replacement | None:
    """Q(DQ(x) / sqrt(mean of squares + epsilon) * scale), of `vdla.QSquares`."""
    graph, node = result.graph, result.producer
    quotient = _maker(graph, node.inputs[0], "Div") if node is not None and node.op == "Mul" else None
    root = _maker(graph, quotient.inputs[1], "Sqrt") if quotient is not None else None
    total = _maker(graph, root.inputs[0], "Add") if root is not None else None
    mean = _maker(graph, total.inputs[0], "DequantizeLinear") if total is not None else None
    squares = _maker(graph, mean.inputs[0], "vdla.QSquares") if mean is not None else None
    if node is None or quotient is None or root is None or total is None or mean is None or squares is None:
        return None
    _read_once(graph, *(made.outputs[0] for made in (node, quotient, root, total, mean, squares)))
    x, epsilon = _rows(graph, quotient.inputs[0]), graph.constant(total.inputs[1])
    if squares.inputs[0] != x.name or x.zero_point or epsilon is None or epsilon.size != 1:
        decline("be the norm of rows with the zero point 0")
    scale = _by_feature(graph, node.inputs[1], graph.tensor(x.name).extents[-1])
    replaced = (squares, mean, total, root, quotient, node)
    return _norm(result, x, replaced, scale, None, float(epsilon.item()), centred=0)


def _maker(graph: Graph, name: str, op: str) -> Node | None:
    node = graph.producers.get(name)
    return node if node is not None and node.op == op else None


def _by_feature(graph: Graph, name: str, features: int) -> Array:
    """A constant with a number for each feature, or for all."""
    value = graph.constant(name)
    if value is None or value.size not in (1, features) or not np.isfinite(value).all():
        decline("have a constant scale and shift by feature")
    return np.broadcast_to(value.astype(np.float64).reshape(-1), (features,))


def _norm(
    result: QuantisedResult,
    x: QuantisedActivation,
    replaced: tuple[Node, ...],
    scale: Array,
    shift: Array | None,
    epsilon: float,
    centred: int,
) -> Replacement:
    """A factor by feature is the magnitude of its scale, and at least a part of its shift, in whose
    steps the shift is a bias.
    """
    graph, unit = result.graph, 2.0**-NORMAL_BITS
    shift = np.zeros_like(scale) if shift is None else shift
    magnitude = np.maximum(np.abs(scale), np.maximum(np.abs(shift) * _LEAST_SHARE, np.float64(result.scale) * 2.0**-12))
    bias = np.clip(np.rint(shift / (magnitude * unit)), -_MOST_BIAS, _MOST_BIAS).astype(np.int32)
    sign = np.where(scale < 0, -1, 1).astype(np.int8)
    least = round(epsilon / float(x.scale) ** 2 * (1 << 2 * MEAN_BITS))
    names = [fresh_name(graph, f"{result.name}_{part}") for part in ("sign", "bias")]
    constants: dict[str, Array] = dict(zip(names, (sign, bias), strict=True))
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in constants.items()}
    factors = multipliers(magnitude * unit / np.float64(result.scale))
    attributes: dict[str, Any] = {"centred": centred, "least": least, **factors}
    made = Replacement((), constants, types)
    return result.becomes("vdla.QRowNorm", (x.name, *names), attributes, replaced, made)
