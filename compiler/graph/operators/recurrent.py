# SPDX-License-Identifier: Apache-2.0
"""Rules of LSTM, GRU and RNN: a layer for each direction, joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.operators.record import records
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall

_Activation = Callable[[te.Value], te.Value]
_X, _W, _R, _B, _LENGTHS, _H0, _C0, _P = range(8)


@dataclass(frozen=True, slots=True)
class _RecurrentKind:
    """A recurrent operator: its function, its states and its default activations."""

    function: Callable[..., tuple[te.Tensor, ...]]
    states: int
    activations: tuple[str, ...]


def _activation(name: str, alpha: float | None, beta: float | None) -> _Activation | None:
    """One of ONNX's activations, None for an unknown one."""

    def a(default: float) -> float:
        return default if alpha is None else alpha

    def b(default: float) -> float:
        return default if beta is None else beta

    made: dict[str, _Activation] = {
        "affine": lambda v: v * a(1.0) + b(0.0),
        "elu": lambda v: te.select(v < 0, (te.exp(v) - 1) * a(1.0), v),
        "hardsigmoid": lambda v: te.clip(v * a(0.2) + b(0.5), 0, 1),
        "leakyrelu": lambda v: te.select(v < 0, v * a(0.01), v),
        "relu": lambda v: te.maximum(v, 0),
        "scaledtanh": lambda v: te.tanh(v * b(1.0)) * a(1.0),
        "sigmoid": te.sigmoid,
        "softsign": lambda v: v / (te.abs(v) + 1),
        "tanh": te.tanh,
        "thresholdedrelu": lambda v: te.select(v > a(1.0), v, te.const(0, v.dtype)),
    }
    return made.get(name.lower())


_WITH_ALPHA = ("affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu")
_WITH_BETA = ("affine", "hardsigmoid", "scaledtanh")


def _activations(call: NodeCall, kind: _RecurrentKind, directions: int) -> list[_Activation]:
    """The activations of all directions; alpha and beta are listed only for activations with
    parameters.
    """
    alphas, betas = iter(call.attribute("activation_alpha", ())), iter(call.attribute("activation_beta", ()))
    activations = []
    for name in call.attribute("activations", kind.activations * directions):
        alpha = next(alphas, None) if name.lower() in _WITH_ALPHA else None
        beta = next(betas, None) if name.lower() in _WITH_BETA else None
        made = _activation(name, alpha, beta)
        if made is None:
            call.decline(f"have activations with a tensor expression, got {name}")
        activations.append(made)
    return activations


def _part(call: NodeCall, index: int, direction: int) -> te.Tensor | None:
    """The operand of one direction, packed if it is constant; weights are transposed."""
    whole = call.optional(index)
    if whole is None:
        return None
    known, name = call.constants[index], f"input{index}_{direction}"
    is_turned = index in (_W, _R)
    if known is not None:
        return call.pack(name, np.ascontiguousarray(known[direction].T if is_turned else known[direction]))
    extents = whole.shape[:0:-1] if is_turned else whole.shape[1:]
    return te.compute(extents, lambda *i: whole[(direction, *(i[::-1] if is_turned else i))], f"{call.name()}_{name}")


def _swapped(x: te.Tensor, name: str) -> te.Tensor:
    """The first two dimensions exchanged."""
    return operators.transpose(x, (1, 0, *range(2, len(x.shape))), name=name)


def _recurrent(kind: _RecurrentKind) -> Expression:
    """A recurrent operator, in both layouts and all directions."""

    def expression(call: NodeCall) -> tuple[te.Tensor, ...]:
        batch_first, name = bool(call.attribute("layout")), _base(call)
        x = call.tensor(_X)
        data = _swapped(x, f"{name}_x") if batch_first else x
        way = call.attribute("direction")
        ways = ("forward", "reverse") if way == "bidirectional" else (way,)
        activations = _activations(call, kind, len(ways))
        count = len(kind.activations)
        layers = [
            _layer(call, kind, data, d, one, activations[d * count : (d + 1) * count], batch_first)
            for d, one in enumerate(ways)
        ]
        ys = _joined([layer[0] for layer in layers], 1, call, 0, (2, 0, 1, 3) if batch_first else None)
        ends = [
            _joined([layer[1 + s] for layer in layers], 0, call, 1 + s, (1, 0, 2) if batch_first else None)
            for s in range(kind.states)
        ]
        return (ys, *ends)

    return expression


def _base(call: NodeCall) -> str:
    """A prefix for stages: the name of the first output of the node."""
    return next(filter(None, call.node.outputs))


def _layer(
    call: NodeCall,
    kind: _RecurrentKind,
    data: te.Tensor,
    direction: int,
    way: str,
    activations: Sequence[_Activation],
    batch_first: bool,
) -> tuple[te.Tensor, ...]:
    """The results of one direction: [T, N, H], [N, H] for each state."""
    name = f"{_base(call)}_{way}"
    options: dict[str, Any] = {"direction": way, "activations": activations, "name": name, "weight_layout": "IO"}
    options["initial_h"] = _initial(call, _H0, direction, batch_first)
    if kind.states > 1:
        options["initial_c"] = _initial(call, _C0, direction, batch_first)
        options["peephole"] = _part(call, _P, direction)
        options["input_forget"] = bool(call.attribute("input_forget"))
    if kind.function is operators.gru:
        options["linear_before_reset"] = bool(call.attribute("linear_before_reset"))
    options["clip"] = call.attribute("clip", None)
    options["lengths"] = call.optional(_LENGTHS)
    weights = (_part(call, index, direction) for index in (_W, _R, _B))
    return kind.function(data, *weights, **options)


def _initial(call: NodeCall, index: int, direction: int, batch_first: bool) -> te.Tensor | None:
    """An initial state [N, H] of one direction."""
    whole = call.optional(index)
    if whole is None or not batch_first:
        return _part(call, index, direction)
    _, _, hidden = whole.shape
    return te.compute(
        (whole.shape[0], hidden), lambda n, j: whole[n, direction, j], f"{_base(call)}_state{index}_{direction}"
    )


def _joined(
    parts: Sequence[te.Tensor], axis: int, call: NodeCall, output: int, perm: Sequence[int] | None
) -> te.Tensor:
    """The results of all directions along a new axis, transposed if the batch is first."""
    name = call.name(output) if call.wants(output) else f"{_base(call)}_result{output}"
    shape = (*parts[0].shape[:axis], len(parts), *parts[0].shape[axis:])

    def value(*i: te.Value) -> te.Value:
        at = tuple(index for d, index in enumerate(i) if d != axis)
        if len(parts) == 1:
            return parts[0][at]
        return te.select(i[axis] == 0, parts[0][at], parts[1][at])

    if perm is None:
        return te.compute(shape, value, name)
    return operators.transpose(te.compute(shape, value, f"{name}_steps_first"), perm, name=name)


_EXPRESSIONS: Mapping[str, Expression] = {
    "GRU": _recurrent(_RecurrentKind(operators.gru, 1, ("Sigmoid", "Tanh"))),
    "LSTM": _recurrent(_RecurrentKind(operators.lstm, 2, ("Sigmoid", "Tanh", "Tanh"))),
    "RNN": _recurrent(_RecurrentKind(operators.rnn, 1, ("Tanh",))),
}
RECURRENT = records(FusionClass.OPAQUE, _EXPRESSIONS)
