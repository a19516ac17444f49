"""Recurrent layers of one direction: long short-term memory and gated recurrent units, as ONNX defines them.

Weights hold the gates one after another in ONNX's order: [gates * hidden, ...], input, output, forget, cell for `lstm`,
update, reset, hidden for `gru`. What the inputs contribute is computed for all steps at once, before the recurrence.
Narrow floats are computed in float32; the states of each step are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from vdla.compiler import te
from vdla.compiler.operators.checks import (
    OperatorError,
    check_float,
    check_rank,
    check_same_dtype,
    same_shape,
    shape_text,
    static_extent,
)
from vdla.compiler.operators.results import accumulator_dtype, result_name, to_accumulator

Element = Callable[[te.Value, te.Value], te.Value]
INPUT, OUTPUT, FORGET, CELL = range(4)
UPDATE, RESET, HIDDEN = range(3)


def lstm(
    x: te.Tensor,
    weight: te.Tensor,
    recurrent: te.Tensor,
    bias: te.Tensor | None = None,
    start_h: te.Tensor | None = None,
    start_c: te.Tensor | None = None,
    reverse: bool = False,
    name: str | None = None,
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """(h of every step [T, N, H], h of the last step [N, H], c of the last step [N, H]).

    x [T, N, I], weight [4 H, I], recurrent [4 H, H], bias [8 H] (of the weight, then of the recurrent weight), starting
    states [N, H], zero where there are none. `reverse` goes from the last step to the first.
    """
    layer = layer_of("lstm", 4, x, weight, recurrent, bias, name)
    h0, c0 = layer.start("h", start_h), layer.start("c", start_c)
    seen = layer.seen()

    def step(t: te.Value, h: te.Tensor, c: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        kept = layer.kept(h)

        def gate(g: int, n: te.Value, j: te.Value) -> te.Value:
            return seen[t, n, g, j] + kept[n, g, j] + layer.bias_of(1, g, j)

        new_c = layer.state("c", lambda n, j: (
            te.sigmoid(gate(FORGET, n, j)) * to_accumulator(c[n, j])
            + te.sigmoid(gate(INPUT, n, j)) * te.tanh(gate(CELL, n, j))
        ))  # fmt: skip
        new_h = layer.state("h", lambda n, j: te.sigmoid(gate(OUTPUT, n, j)) * te.tanh(to_accumulator(new_c[n, j])))
        return new_h, new_c

    h, c = te.scan(x.shape[0], step, (h0, c0), reverse=reverse)
    return h, layer.last(h, reverse), layer.last(c, reverse)


def gru(
    x: te.Tensor,
    weight: te.Tensor,
    recurrent: te.Tensor,
    bias: te.Tensor | None = None,
    start_h: te.Tensor | None = None,
    linear_before_reset: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> tuple[te.Tensor, te.Tensor]:
    """(h of every step [T, N, H], h of the last step [N, H]); operands as those of `lstm`, with 3 gates and 6 biases.

    `linear_before_reset` multiplies the reset gate with the product of the recurrent weight, bias included, instead of
    with the state before that product.
    """
    layer = layer_of("gru", 3, x, weight, recurrent, bias, name)
    h0 = layer.start("h", start_h)
    seen = layer.seen()

    def step(t: te.Value, h: te.Tensor) -> te.Tensor:
        kept = layer.kept(h)

        def gate(g: int, n: te.Value, j: te.Value) -> te.Value:
            return te.sigmoid(seen[t, n, g, j] + kept[n, g, j] + layer.bias_of(1, g, j))

        turned = turned_by_reset(layer, kept, h, partial(gate, RESET), linear_before_reset)
        offer = layer.stage("offer", lambda n, j: te.tanh(seen[t, n, HIDDEN, j] + turned(n, j)))
        return layer.state("h", lambda n, j: (
            (1 - gate(UPDATE, n, j)) * offer[n, j] + gate(UPDATE, n, j) * to_accumulator(h[n, j])
        ))  # fmt: skip

    h = te.scan(x.shape[0], step, h0, reverse=reverse)
    return h, layer.last(h, reverse)


# --- parts -----------------------------------------------------------------------------------------------------------


def turned_by_reset(layer: Layer, kept: te.Tensor, h: te.Tensor, reset: Element, is_linear: bool) -> Element:
    """What the state contributes to the hidden gate of `gru`: reset behind the product with its weight, or before."""
    if is_linear:
        return lambda n, j: reset(n, j) * (kept[n, HIDDEN, j] + layer.bias_of(1, HIDDEN, j))
    product = layer.product(layer.stage("left", lambda n, j: reset(n, j) * to_accumulator(h[n, j])), HIDDEN)
    return lambda n, j: product[n, j] + layer.bias_of(1, HIDDEN, j)


@dataclass(frozen=True, slots=True)
class Layer:
    """The operands of a recurrent layer and the stages that its kinds share."""

    where: str
    gates: int
    hidden: int
    x: te.Tensor
    weight: te.Tensor
    recurrent: te.Tensor
    bias: te.Tensor | None
    name: str

    def start(self, what: str, given: te.Tensor | None) -> te.Tensor:
        """The state before the first step."""
        shape = (self.x.shape[1], self.hidden)
        if given is None:
            return te.full(shape, 0, self.x.dtype, f"{self.name}_{what}0")
        check_shape_of(self.where, f"start_{what}", given, shape)
        check_same_dtype(self.where, self.x, given)
        return given

    def bias_of(self, part: int, gate: int, j: te.Value) -> te.Value:
        """The bias of a gate's weight (part 0) or recurrent weight (part 1)."""
        if self.bias is None:
            return te.const(0, accumulator_dtype(self.x.dtype))
        return to_accumulator(self.bias[j + (part * self.gates + gate) * self.hidden])

    def seen(self) -> te.Tensor:
        """What the inputs contribute to the gates of every step: [T, N, gates, H], with the weight's bias."""
        i = te.reduce_axis(self.x.shape[2], "i")
        steps, batch, _ = self.x.shape
        shape = (steps, batch, self.gates, self.hidden)

        def term(t: te.Value, n: te.Value, g: te.Value, j: te.Value) -> te.Value:
            return te.sum(to_accumulator(self.x[t, n, i]) * to_accumulator(self.weight[g * self.hidden + j, i]), axis=i)

        total = te.compute(shape, term, f"{self.name}_product")
        if self.bias is None:
            return total
        return te.compute(shape, lambda t, n, g, j: total[t, n, g, j] + self.bias_of(0, g, j), f"{self.name}_seen")

    def kept(self, h: te.Tensor) -> te.Tensor:
        """What a state contributes to the gates: [N, gates, H]."""
        k = te.reduce_axis(self.hidden, "k")

        def term(n: te.Value, g: te.Value, j: te.Value) -> te.Value:
            return te.sum(to_accumulator(h[n, k]) * to_accumulator(self.recurrent[g * self.hidden + j, k]), axis=k)

        return te.compute((self.x.shape[1], self.gates, self.hidden), term, f"{self.name}_kept")

    def product(self, state: te.Tensor, gate: int) -> te.Tensor:
        """What a state contributes to one gate: [N, H]."""
        k = te.reduce_axis(self.hidden, "k")
        start = gate * self.hidden
        return self.stage(
            "turned", lambda n, j: te.sum(state[n, k] * to_accumulator(self.recurrent[j + start, k]), axis=k)
        )

    def state(self, what: str, value: Element) -> te.Tensor:
        """The stage that gives a new state: [N, H]."""
        return self.stage(what, lambda n, j: te.cast(self.x.dtype, value(n, j)))

    def stage(self, what: str, value: Element) -> te.Tensor:
        """A stage of a step: [N, H]."""
        return te.compute((self.x.shape[1], self.hidden), lambda n, j: value(n, j), f"{self.name}_{what}")

    def last(self, states: te.Tensor, reverse: bool) -> te.Tensor:
        """The states after the last step that runs."""
        end = te.const(0, "int32") if reverse else te.const(0, "int32") + self.x.shape[0] - 1
        return te.compute(states.shape[1:], lambda n, j: states[end, n, j], f"{states.name}_last")


def layer_of(
    where: str,
    gates: int,
    x: te.Tensor,
    weight: te.Tensor,
    recurrent: te.Tensor,
    bias: te.Tensor | None,
    name: str | None,
) -> Layer:
    """The layer of operands that fit each other."""
    check_rank(where, "x", x, 3, 3)
    check_float(where, "x", x)
    check_rank(where, "recurrent", recurrent, 2, 2)
    hidden = static_extent(where, "the last extent of recurrent", recurrent.shape[1])
    check_shape_of(where, "weight", weight, (gates * hidden, x.shape[2]))
    check_shape_of(where, "recurrent", recurrent, (gates * hidden, hidden))
    if bias is not None:
        check_shape_of(where, "bias", bias, (2 * gates * hidden,))
    check_same_dtype(where, x, weight, recurrent, *([] if bias is None else [bias]))
    return Layer(where, gates, hidden, x, weight, recurrent, bias, result_name(x, where, name))


def check_shape_of(where: str, what: str, tensor: te.Tensor, shape: tuple[te.Dim, ...]) -> None:
    """Refuse a tensor of another shape."""
    check_rank(where, what, tensor, len(shape), len(shape))
    if not same_shape(tensor.shape, shape):
        raise OperatorError(f"{where}: {what} must have the shape {shape_text(shape)}, got {shape_text(tensor.shape)}")
