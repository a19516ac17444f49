# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of one direction, as in ONNX: LSTM, GRU and RNN.

Weights are [gates * hidden, ...] with the gates in ONNX's order: input, output, forget, cell for
`lstm`; update, reset, hidden for `gru`. The contribution of the inputs is computed for all steps at
once, before the recurrence. float16 and bfloat16 are computed in float32; the states are rounded
after each step.

With `lengths`, row n of the batch ends after lengths[n] steps: its state stays, and its results of
later steps are 0. `activations` replace the sigmoids and hyperbolic tangents, in ONNX's order;
`clip` limits their arguments. With the `weight_layout` "IO", weight [I, gates H] and recurrence
[H, gates H] are transposed, so that lanes run along the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from vdla.compiler import te
from vdla.compiler.operators.checks import (
    OperatorError,
    check_choice,
    check_float,
    check_rank,
    check_same_dtype,
    same_shape,
    shape_text,
    static_extent,
)
from vdla.compiler.operators.results import accumulator_dtype, result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR

Activation = Callable[[te.Value], te.Value]
_Element = Callable[[te.Value, te.Value], te.Value]
_INPUT, _OUTPUT, _FORGET, _CELL = range(4)
_UPDATE, _RESET, _HIDDEN = range(3)
_DIRECTIONS = ("forward", "reverse")
_GateTerm = Callable[..., te.Value]
_LANES_ALONG_OUTPUTS = "IO"
_LAYOUTS = ("OI", _LANES_ALONG_OUTPUTS)


def lstm(
    x: te.Tensor,
    weight: te.Tensor,
    recurrence: te.Tensor,
    bias: te.Tensor | None = None,
    initial_h: te.Tensor | None = None,
    initial_c: te.Tensor | None = None,
    direction: str = "forward",
    name: str | None = None,
    peephole: te.Tensor | None = None,
    lengths: te.Tensor | None = None,
    activations: Sequence[Activation] = (te.sigmoid, te.tanh, te.tanh),
    clip: float | None = None,
    input_forget: bool = False,
    weight_layout: str = "OI",
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """The states h of all steps [T, N, H], and h and c of the last step [N, H].

    x [T, N, I], weight [4 H, I], recurrence [4 H, H], bias [8 H] (of the weight, then of the
    recurrence), initial states [N, H], 0 by default, peephole [3 H] (input, output, forget),
    lengths int32 [N]. `direction` is "forward" or "reverse", from the last step to the first.
    `input_forget` couples the gates: forget is 1 - input.
    """
    reverse = _is_reverse("lstm", direction)
    layer = _layer("lstm", 4, x, weight, recurrence, bias, name, lengths, activations, clip, weight_layout)
    if peephole is not None:
        _check_shape("lstm", "peephole", peephole, (3 * layer.hidden,))
    h0, c0 = layer.initial("h", initial_h), layer.initial("c", initial_c)
    inputs = layer.input_terms()

    def step(t: te.Value, h: te.Tensor, c: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        states = layer.state_terms(h)

        def gate(g: int, n: te.Value, j: te.Value, cell: te.Tensor) -> te.Value:
            total = inputs(t, n, g, j) + states(n, g, j) + layer.bias_of(1, g, j)
            if peephole is not None:
                seen = peephole[j + (_INPUT, _OUTPUT, _FORGET).index(g) * layer.hidden]
                total = total + to_accumulator(seen) * to_accumulator(cell[n, j])
            return layer.activate(0, total)

        def candidate(n: te.Value, j: te.Value) -> te.Value:
            return layer.activate(1, inputs(t, n, _CELL, j) + states(n, _CELL, j) + layer.bias_of(1, _CELL, j))

        def cell_of(n: te.Value, j: te.Value) -> te.Value:
            opened = gate(_INPUT, n, j, c)
            kept = 1 - opened if input_forget else gate(_FORGET, n, j, c)
            return kept * to_accumulator(c[n, j]) + opened * candidate(n, j)

        new_c = layer.state("c", cell_of, t, c)
        new_h = layer.state(
            "h",
            lambda n, j: gate(_OUTPUT, n, j, new_c) * layer.activate(2, to_accumulator(new_c[n, j])),
            t,
            h,
        )
        return new_h, new_c

    h, c = te.scan(x.shape[0], step, (h0, c0), reverse=reverse)
    return layer.within_lengths(h), layer.last(h, reverse), layer.last(c, reverse)


def gru(
    x: te.Tensor,
    weight: te.Tensor,
    recurrence: te.Tensor,
    bias: te.Tensor | None = None,
    initial_h: te.Tensor | None = None,
    linear_before_reset: bool = False,
    direction: str = "forward",
    name: str | None = None,
    lengths: te.Tensor | None = None,
    activations: Sequence[Activation] = (te.sigmoid, te.tanh),
    clip: float | None = None,
    weight_layout: str = "OI",
) -> tuple[te.Tensor, te.Tensor]:
    """The states h of all steps [T, N, H] and of the last [N, H]; operands as of `lstm`, 3 gates.

    `linear_before_reset` applies the reset gate to the product of state and recurrence, bias
    included, instead of to the state.
    """
    reverse = _is_reverse("gru", direction)
    layer = _layer("gru", 3, x, weight, recurrence, bias, name, lengths, activations, clip, weight_layout)
    h0 = layer.initial("h", initial_h)
    inputs = layer.input_terms()

    def step(t: te.Value, h: te.Tensor) -> te.Tensor:
        states = layer.state_terms(h, None if linear_before_reset else _HIDDEN)

        def gate(g: int, n: te.Value, j: te.Value) -> te.Value:
            return layer.activate(0, inputs(t, n, g, j) + states(n, g, j) + layer.bias_of(1, g, j))

        hidden_term = _hidden_term(layer, states, h, partial(gate, _RESET), linear_before_reset)
        candidate = layer.stage(
            "candidate", lambda n, j: layer.activate(1, inputs(t, n, _HIDDEN, j) + hidden_term(n, j))
        )
        return layer.state(
            "h",
            lambda n, j: (1 - gate(_UPDATE, n, j)) * candidate[n, j] + gate(_UPDATE, n, j) * to_accumulator(h[n, j]),
            t,
            h,
        )

    h = te.scan(x.shape[0], step, h0, reverse=reverse)
    return layer.within_lengths(h), layer.last(h, reverse)


def rnn(
    x: te.Tensor,
    weight: te.Tensor,
    recurrence: te.Tensor,
    bias: te.Tensor | None = None,
    initial_h: te.Tensor | None = None,
    direction: str = "forward",
    name: str | None = None,
    lengths: te.Tensor | None = None,
    activations: Sequence[Activation] = (te.tanh,),
    clip: float | None = None,
    weight_layout: str = "OI",
) -> tuple[te.Tensor, te.Tensor]:
    """The states h of all steps [T, N, H] and of the last [N, H]; operands as of `lstm`, 1 gate."""
    reverse = _is_reverse("rnn", direction)
    layer = _layer("rnn", 1, x, weight, recurrence, bias, name, lengths, activations, clip, weight_layout)
    h0 = layer.initial("h", initial_h)
    inputs = layer.input_terms()

    def step(t: te.Value, h: te.Tensor) -> te.Tensor:
        states = layer.state_terms(h)

        def value(n: te.Value, j: te.Value) -> te.Value:
            return layer.activate(0, inputs(t, n, 0, j) + states(n, 0, j) + layer.bias_of(1, 0, j))

        return layer.state("h", value, t, h)

    h = te.scan(x.shape[0], step, h0, reverse=reverse)
    return layer.within_lengths(h), layer.last(h, reverse)


# --- parts ----------------------------------------------------------------------------------------


def _is_reverse(where: str, direction: str) -> bool:
    """Whether a layer runs from the last step to the first."""
    check_choice(where, "direction", direction, _DIRECTIONS)
    return direction == "reverse"


def _hidden_term(layer: _Layer, states: _GateTerm, h: te.Tensor, reset: _Element, is_linear: bool) -> _Element:
    """The contribution of the state to the hidden gate, reset after the product or before."""
    if is_linear:
        return lambda n, j: reset(n, j) * (states(n, _HIDDEN, j) + layer.bias_of(1, _HIDDEN, j))
    product = layer.product(layer.stage("reset_state", lambda n, j: reset(n, j) * to_accumulator(h[n, j])), _HIDDEN)
    return lambda n, j: product[n, j] + layer.bias_of(1, _HIDDEN, j)


@dataclass(frozen=True, slots=True)
class _Layer:
    """The operands of a recurrent layer and the stages that `lstm` and `gru` share."""

    where: str
    gates: int
    hidden: int
    x: te.Tensor
    weight: te.Tensor
    recurrence: te.Tensor
    bias: te.Tensor | None
    name: str
    lengths: te.Tensor | None
    activations: Sequence[Activation]
    clip: float | None
    layout: str

    def activate(self, index: int, value: te.Value) -> te.Value:
        """An activation of a sum, which is clipped."""
        return self.activations[index](value if self.clip is None else te.clip(value, -self.clip, self.clip))

    def initial(self, what: str, given: te.Tensor | None) -> te.Tensor:
        """The state before the first step."""
        shape = (self.x.shape[1], self.hidden)
        if given is None:
            return te.full(shape, 0, self.x.dtype, f"{self.name}_{what}0")
        _check_shape(self.where, f"initial_{what}", given, shape)
        check_same_dtype(self.where, self.x, given)
        return given

    def bias_of(self, part: int, gate: int, j: te.Value) -> te.Value:
        """The bias of a gate's weight (part 0) or recurrence (part 1)."""
        if self.bias is None:
            return te.const(0, accumulator_dtype(self.x.dtype))
        return to_accumulator(self.bias[j + (part * self.gates + gate) * self.hidden])

    def weight_of(self, weight: te.Tensor, column: te.Operand, i: te.Operand) -> te.Value:
        """The element of a weight for a gate's output and an input."""
        return to_accumulator(weight[(i, column) if self.layout == _LANES_ALONG_OUTPUTS else (column, i)])

    def input_terms(self) -> _GateTerm:
        """The contribution of inputs and bias to the gates of all steps: of (t, n, gate, j).

        The products of all steps are one matrix product.
        """
        i = te.reduce_axis(self.x.shape[2], "i")
        steps, batch, width = self.x.shape
        columns, name = self.gates * self.hidden, f"{self.name}_product"
        if self.layout == _LANES_ALONG_OUTPUTS and isinstance(steps, int) and isinstance(batch, int):
            rows = te.compute(
                (steps * batch, width), lambda m, k: self.x[m // batch, m % batch, k], f"{self.name}_rows"
            )

            def row_term(m: te.Value, c: te.Value) -> te.Value:
                return te.sum(to_accumulator(rows[m, i]) * self.weight_of(self.weight, c, i), axis=i)

            total = te.compute((steps * batch, columns), row_term, name, {OPERATOR: "matmul"})
            if self.bias is not None:
                product, bias = total, self.bias
                total = te.compute(
                    product.shape, lambda m, c: product[m, c] + to_accumulator(bias[c]), f"{self.name}_inputs"
                )
            return lambda t, n, g, j: total[t * batch + n, j + g * self.hidden]

        def term(t: te.Value, n: te.Value, c: te.Value) -> te.Value:
            return te.sum(to_accumulator(self.x[t, n, i]) * self.weight_of(self.weight, c, i), axis=i)

        sums = te.compute((steps, batch, columns), term, name)
        return lambda t, n, g, j: sums[t, n, j + g * self.hidden] + self.bias_of(0, g, j)

    def state_terms(self, h: te.Tensor, gates: int | None = None) -> _GateTerm:
        """The contribution of a state to the first gates, all by default: of (n, gate, j)."""
        columns = (self.gates if gates is None else gates) * self.hidden
        total = self._step_product(h, 0, columns, "states")
        return lambda n, g, j: total[n, j + g * self.hidden]

    def product(self, state: te.Tensor, gate: int) -> te.Tensor:
        """The contribution of a state to one gate: [N, H]."""
        return self._step_product(state, gate * self.hidden, self.hidden, "hidden_product")

    def _step_product(self, state: te.Tensor, start: int, columns: int, what: str) -> te.Tensor:
        """The product of a state and the columns of the recurrence from `start` on."""
        k = te.reduce_axis(self.hidden, "k")

        def term(n: te.Value, c: te.Value) -> te.Value:
            return te.sum(to_accumulator(state[n, k]) * self.weight_of(self.recurrence, c + start, k), axis=k)

        annotations = {OPERATOR: "step_product"} if self.layout == _LANES_ALONG_OUTPUTS else None
        return te.compute((self.x.shape[1], columns), term, f"{self.name}_{what}", annotations)

    def state(self, what: str, value: _Element, t: te.Value, before: te.Tensor) -> te.Tensor:
        """The stage that computes a new state [N, H]; rows that have ended keep theirs."""
        lengths = self.lengths
        if lengths is None:
            return self.stage(what, lambda n, j: te.cast(self.x.dtype, value(n, j)))
        new = self.stage(f"new_{what}", value)
        return self.stage(what, lambda n, j: te.select(t < lengths[n], te.cast(self.x.dtype, new[n, j]), before[n, j]))

    def within_lengths(self, states: te.Tensor) -> te.Tensor:
        """The states of all steps, 0 for rows that have ended."""
        lengths = self.lengths
        if lengths is None:
            return states
        zero = te.const(0, states.dtype)
        return te.compute(
            states.shape, lambda t, n, j: te.select(t < lengths[n], states[t, n, j], zero), f"{self.name}_masked"
        )

    def stage(self, what: str, value: _Element) -> te.Tensor:
        """A stage of a step: [N, H]."""
        return te.compute((self.x.shape[1], self.hidden), lambda n, j: value(n, j), f"{self.name}_{what}")

    def last(self, states: te.Tensor, reverse: bool) -> te.Tensor:
        """The state after the last step to run."""
        end = te.const(0, "int32") if reverse else te.const(0, "int32") + self.x.shape[0] - 1
        return te.compute(states.shape[1:], lambda n, j: states[end, n, j], f"{states.name}_last")


def _layer(
    where: str,
    gates: int,
    x: te.Tensor,
    weight: te.Tensor,
    recurrence: te.Tensor,
    bias: te.Tensor | None,
    name: str | None,
    lengths: te.Tensor | None,
    activations: Sequence[Activation],
    clip: float | None,
    layout: str,
) -> _Layer:
    """The layer of these operands, checked."""
    check_rank(where, "x", x, 3, 3)
    check_float(where, "x", x)
    check_rank(where, "recurrence", recurrence, 2, 2)
    check_choice(where, "weight_layout", layout, _LAYOUTS)
    inputs_at = _LAYOUTS.index(layout) ^ 1
    hidden = static_extent(where, "the inputs of recurrence", recurrence.shape[inputs_at])
    for what, tensor, inputs in (("weight", weight, x.shape[2]), ("recurrence", recurrence, hidden)):
        _check_shape(where, what, tensor, (gates * hidden, inputs) if inputs_at else (inputs, gates * hidden))
    if bias is not None:
        _check_shape(where, "bias", bias, (2 * gates * hidden,))
    check_same_dtype(where, x, weight, recurrence, *([] if bias is None else [bias]))
    if lengths is not None:
        _check_shape(where, "lengths", lengths, (x.shape[1],))
        if lengths.dtype != "int32":
            raise OperatorError(f"{where}: lengths must be of dtype int32, got {lengths.dtype}")
    return _Layer(
        where=where,
        gates=gates,
        hidden=hidden,
        x=x,
        weight=weight,
        recurrence=recurrence,
        bias=bias,
        name=result_name(x, where, name),
        lengths=lengths,
        activations=activations,
        clip=clip,
        layout=layout,
    )


def _check_shape(where: str, what: str, tensor: te.Tensor, shape: tuple[te.Dim, ...]) -> None:
    """Refuse a tensor of another shape."""
    check_rank(where, what, tensor, len(shape), len(shape))
    if not same_shape(tensor.shape, shape):
        raise OperatorError(f"{where}: {what} must have the shape {shape_text(shape)}, got {shape_text(tensor.shape)}")
