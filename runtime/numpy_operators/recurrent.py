# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN with all their options: directions, activations, peepholes, lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.runtime.numpy_operators.dtypes import widened, widened_all
from vdla.runtime.numpy_operators.elementwise import sigmoid, softplus
from vdla.runtime.numpy_operators.function import Array, Attributes, Function

_Activation = Callable[[Array, float | None, float | None], Array]


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


_ACTIVATIONS: Mapping[str, _Activation] = {
    "Affine": lambda x, a, b: _or(a, 1.0) * x + _or(b, 0.0),
    "Elu": lambda x, a, b: np.where(x < 0, _or(a, 1.0) * np.expm1(np.minimum(x, 0)), x),
    "HardSigmoid": lambda x, a, b: np.clip(_or(a, 0.2) * x + _or(b, 0.5), 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, _or(a, 0.01) * x, x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "ScaledTanh": lambda x, a, b: _or(a, 1.0) * np.tanh(_or(b, 1.0) * x),
    "Sigmoid": lambda x, a, b: sigmoid(x),
    "Softplus": lambda x, a, b: softplus(x),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > _or(a, 1.0), x, 0),
}
_WITH_ALPHA = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu")
_WITH_BETA = ("Affine", "HardSigmoid", "ScaledTanh")


@dataclass(frozen=True)
class _Direction:
    """The operands of one direction: weights by gate, activations, initial states."""

    weight: Array
    recurrence: Array
    bias: Array  # [2, gates * hidden]: of the weight, of the recurrence
    activations: Sequence[Callable[[Array], Array]]
    states: Sequence[Array]
    peephole: Array  # [3, hidden], zeros without
    clip: float | None

    def activate(self, index: int, x: Array) -> Array:
        """An activation of the clipped values."""
        limited = x if self.clip is None else np.clip(x, -self.clip, self.clip)
        return self.activations[index](limited)

    def gates(self, x: Array, h: Array, count: int) -> list[Array]:
        """The sums of all gates."""
        total = x @ self.weight.T + h @ self.recurrence.T + self.bias.sum(0)
        return np.split(total, count, axis=1)


_Cell = Callable[[_Direction, Array, Sequence[Array], Attributes], Sequence[Array]]


def _rnn_cell(d: _Direction, x: Array, states: Sequence[Array], attributes: Attributes) -> Sequence[Array]:
    (total,) = d.gates(x, states[0], 1)
    return (d.activate(0, total),)


def _gru_cell(d: _Direction, x: Array, states: Sequence[Array], attributes: Attributes) -> Sequence[Array]:
    (h,), hidden = states, d.recurrence.shape[1]
    update, reset, _ = d.gates(x, h, 3)
    z, r = d.activate(0, update), d.activate(0, reset)
    inputs = x @ d.weight[2 * hidden :].T + d.bias[0, 2 * hidden :]
    if attributes.get("linear_before_reset", 0):
        candidate = inputs + r * (h @ d.recurrence[2 * hidden :].T + d.bias[1, 2 * hidden :])
    else:
        candidate = inputs + (r * h) @ d.recurrence[2 * hidden :].T + d.bias[1, 2 * hidden :]
    return ((1 - z) * d.activate(1, candidate) + z * h,)


def _lstm_cell(d: _Direction, x: Array, states: Sequence[Array], attributes: Attributes) -> Sequence[Array]:
    h, c = states
    into, out, forget, cell = d.gates(x, h, 4)
    i = d.activate(0, into + d.peephole[0] * c)
    f = 1 - i if attributes.get("input_forget", 0) else d.activate(0, forget + d.peephole[2] * c)
    new = f * c + i * d.activate(1, cell)
    return d.activate(0, out + d.peephole[1] * new) * d.activate(2, new), new


@dataclass(frozen=True, slots=True)
class _Kind:
    """A recurrent operator: its cell, gates, states and default activations."""

    cell: _Cell
    gates: int
    states: int
    activations: tuple[str, ...]


def _operator(kind: _Kind) -> Function:
    def operator(
        attributes: Attributes,
        x: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None = None,
        lengths: Array | None = None,
        *rest: Array | None,
    ) -> tuple[Array, ...]:
        return _run(kind, attributes, x, weight, recurrence, bias, lengths, rest)

    return operator


def _run(
    kind: _Kind,
    attributes: Attributes,
    x: Array,
    weight: Array,
    recurrence: Array,
    bias: Array | None,
    lengths: Array | None,
    rest: Sequence[Array | None],
) -> tuple[Array, ...]:
    """The states h of all steps, and the last states."""
    batch_first = bool(attributes.get("layout", 0))
    data = widened(x.transpose(1, 0, 2) if batch_first else x)
    steps, batch, _ = data.shape
    counts = np.full(batch, steps) if lengths is None else lengths
    ys, last = [], []
    for d in range(weight.shape[0]):
        direction = _direction(kind, attributes, d, batch, weight, recurrence, bias, rest, batch_first)
        reverse = attributes.get("direction", "forward") == "reverse" or d == 1
        line, states = _scan(kind, direction, data, counts, reverse, attributes)
        ys.append(line)
        last.append(states)
    y = np.stack(ys, 1)  # [steps, directions, batch, hidden]
    ends = [np.stack([states[s] for states in last]) for s in range(kind.states)]
    if batch_first:
        y, ends = y.transpose(2, 0, 1, 3), [end.transpose(1, 0, 2) for end in ends]
    return tuple(result.astype(x.dtype) for result in (y, *ends))


def _scan(
    kind: _Kind, direction: _Direction, data: Array, counts: Array, reverse: bool, attributes: Attributes
) -> tuple[Array, Sequence[Array]]:
    """Each row of the batch runs for its own number of steps; the rest of its results is 0."""
    steps = data.shape[0]
    states = list(direction.states)
    line = np.zeros((steps, *states[0].shape), data.dtype)
    for step in range(steps):
        active = step < counts
        place = np.where(active, counts - 1 - step, step) if reverse else np.full(len(counts), step)
        rows = np.arange(len(counts))
        new = kind.cell(direction, data[place, rows], states, attributes)
        states = [np.where(active[:, None], n, old) for n, old in zip(new, states, strict=True)]
        line[place[active], rows[active]] = states[0][active]
    return line, states


def _direction(
    kind: _Kind,
    attributes: Attributes,
    d: int,
    batch: int,
    weight: Array,
    recurrence: Array,
    bias: Array | None,
    rest: Sequence[Array | None],
    batch_first: bool,
) -> _Direction:
    """The operands of direction `d`."""
    hidden = recurrence.shape[2]
    w, r, b, *more = widened_all(weight, recurrence, bias, *rest)
    assert w is not None
    assert r is not None
    initial = [*more, None, None, None]
    states = [
        np.zeros((batch, hidden), w.dtype) if s is None else (s.transpose(1, 0, 2) if batch_first else s)[d]
        for s in initial[: kind.states]
    ]
    peephole = initial[kind.states] if kind.states > 1 else None
    return _Direction(
        weight=w[d],
        recurrence=r[d],
        bias=np.zeros((2, kind.gates * hidden), w.dtype) if b is None else b[d].reshape(2, -1),
        activations=_activations(kind, attributes, d, weight.shape[0]),
        states=states,
        peephole=np.zeros((3, hidden), w.dtype) if peephole is None else peephole[d].reshape(3, hidden),
        clip=attributes.get("clip"),
    )


def _activations(kind: _Kind, attributes: Attributes, d: int, directions: int) -> Sequence[Callable[[Array], Array]]:
    """The activations of a direction; alpha and beta are listed for those that have them."""
    names = attributes.get("activations") or kind.activations * directions
    alphas, betas = iter(attributes.get("activation_alpha", ())), iter(attributes.get("activation_beta", ()))
    made = []
    for name in names:
        title = next(known for known in _ACTIVATIONS if known.lower() == name.lower())
        alpha = next(alphas, None) if title in _WITH_ALPHA else None
        beta = next(betas, None) if title in _WITH_BETA else None
        made.append(_bound(_ACTIVATIONS[title], alpha, beta))
    count = len(kind.activations)
    return made[d * count : (d + 1) * count]


def _bound(function: _Activation, alpha: float | None, beta: float | None) -> Callable[[Array], Array]:
    return lambda x: function(x, alpha, beta)


RECURRENT: Mapping[str, Function] = {
    "GRU": _operator(_Kind(_gru_cell, 3, 1, ("Sigmoid", "Tanh"))),
    "LSTM": _operator(_Kind(_lstm_cell, 4, 2, ("Sigmoid", "Tanh", "Tanh"))),
    "RNN": _operator(_Kind(_rnn_cell, 1, 1, ("Tanh",))),
}
