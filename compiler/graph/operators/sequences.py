# SPDX-License-Identifier: Apache-2.0
"""Rules of operators with a state along a sequence: caches, causal convolutions and attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vdla.compiler import operators, te
from vdla.compiler.graph.operators.attention import joined_heads, split_heads
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, widened
from vdla.compiler.operators.results import to_accumulator

_ZERO = te.const(0, "int32")


def _tensor_scatter(call: NodeCall) -> te.Tensor:
    """Rows of a cache replaced, each batch from its own start on."""
    past, update, starts = call.tensor(0), call.tensor(1), call.optional(2)
    axis = call.attribute("axis") % len(past.shape)
    extent, count = past.shape[axis], update.shape[axis]
    circular = call.attribute("mode") == "circular"

    def value(*i: te.Value) -> te.Value:
        place = i[axis] if starts is None else i[axis] - te.cast("int32", starts[i[0]])
        place = place % extent if circular else place
        new = update[tuple(te.clip(place, 0, count - 1) if d == axis else at for d, at in enumerate(i))]
        return te.select((place >= 0) & (place < count), new, past[i])

    return te.compute(past.shape, value, call.name())


def _causal_convolution(call: NodeCall) -> tuple[te.Tensor, ...]:
    """A depthwise convolution of the past and the present; its last positions are the new past."""
    x, weight, bias, past = call.tensor(0), call.tensor(1), call.optional(2), call.optional(3)
    name, before, length = call.name(), weight.shape[2] - 1, x.shape[2]

    def element(n: te.Value, c: te.Value, place: te.Value) -> te.Value:
        """The element at a position of the past followed by the present."""
        now = x[n, c, te.maximum(place - before, 0)]
        old = te.const(0, x.dtype) if past is None else past[n, c, te.minimum(place, before - 1)]
        return te.select(place < before, old, now)

    shape = (*x.shape[:2], before + length)
    line = x if not before else te.compute(shape, lambda n, c, s: element(n, c, s), f"{name}_line")
    row, taps = (operators.unsqueeze(t, 2, name=f"{name}_{what}") for t, what in ((line, "row"), (weight, "taps")))
    flat = operators.depthwise_conv2d(row, taps, bias, name=f"{name}_plane")
    activated = call.attribute("activation") in ("silu", "swish")

    def value(n: te.Value, c: te.Value, s: te.Value) -> te.Value:
        total = to_accumulator(flat[n, c, _ZERO, s])
        return te.cast(x.dtype, total * te.sigmoid(total) if activated else total)

    result = te.compute(x.shape, value, name)
    if not call.wants(1):
        return (result,)
    if not before:
        call.decline("have a past with elements")
    present = te.compute((*x.shape[:2], before), lambda n, c, s: element(n, c, s + length), call.name(1))
    return result, present


@dataclass(frozen=True)
class _Recurrence:
    """The operands of linear attention, [batch, heads, steps, ...], float32 at least.

    `decay` is in log-space, one a key element or one a head; `beta` is [batch, steps, heads or 1].
    """

    name: str
    query: te.Tensor
    key: te.Tensor
    value: te.Tensor
    decay: te.Tensor | None
    beta: te.Tensor | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a state: keys by values for each head."""
        return (*self.key.shape[:2], self.key.shape[3], self.value.shape[3])

    def states(self, past: te.Tensor | None) -> te.Tensor:
        """[steps, batch, heads, key size, value size]: the state after each step."""
        start = te.full(self.shape, 0, self.key.dtype, f"{self.name}_start") if past is None else past
        return te.scan(self.key.shape[2], self._step, start)

    def _step(self, t: te.Value, state: te.Tensor) -> te.Tensor:
        def kept_of(n: te.Value, h: te.Value, i: te.Value, j: te.Value) -> te.Value:
            if self.decay is None:
                return state[n, h, i, j]
            return state[n, h, i, j] * te.exp(self.decay[n, h, t, _ZERO if self.decay.shape[3] == 1 else i])

        kept = te.compute(self.shape, kept_of, f"{self.name}_kept")
        known = self._known(kept, t)

        def updated(n: te.Value, h: te.Value, i: te.Value, j: te.Value) -> te.Value:
            target = self.value[n, h, t, j]
            if self.beta is not None and known is not None:
                rate = self.beta[n, t, _ZERO if self.beta.shape[2] == 1 else h]
                target = (target - known[n, h, j]) * rate
            return kept[n, h, i, j] + self.key[n, h, t, i] * target

        return te.compute(self.shape, updated, f"{self.name}_state")

    def _known(self, kept: te.Tensor, t: te.Value) -> te.Tensor | None:
        """The value of the state for the key of a step, which the delta rules subtract."""
        if self.beta is None:
            return None
        batch, heads, size, width = self.shape
        k = te.reduce_axis(size, "k")

        def term(n: te.Value, h: te.Value, j: te.Value) -> te.Value:
            return te.sum(kept[n, h, k, j] * self.key[n, h, t, k], axis=k)

        return te.compute((batch, heads, width), term, f"{self.name}_known")

    def read(self, states: te.Tensor, scale: float) -> te.Tensor:
        """[batch, query heads, steps, value size]: the states, read by the queries."""
        heads = self.query.shape[1]
        group, k = heads // self.shape[1], te.reduce_axis(self.shape[2], "q")

        def term(n: te.Value, h: te.Value, t: te.Value, j: te.Value) -> te.Value:
            return te.sum(self.query[n, h, t, k] * states[t, n, h // group, k, j], axis=k)

        sums = te.compute((self.shape[0], heads, self.key.shape[2], self.shape[3]), term, f"{self.name}_sums")
        return operators.elementwise(sums, lambda x: x * scale, f"{self.name}_scaled")


def _linear_attention(call: NodeCall) -> tuple[te.Tensor, ...]:
    name, q_heads, kv_heads = call.name(), call.attribute("q_num_heads"), call.attribute("kv_num_heads")
    rule = call.attribute("update_rule")
    q, k, v, past, decay, beta = (widened(call.optional(n), f"{name}_wide{n}") for n in range(6))
    assert q is not None
    assert k is not None
    assert v is not None
    gated = decay is not None and rule.startswith("gated")
    recurrence = _Recurrence(
        name=name,
        query=split_heads(q, q_heads, f"{name}_q"),
        key=split_heads(k, kv_heads, f"{name}_k"),
        value=split_heads(v, kv_heads, f"{name}_v"),
        decay=split_heads(decay, kv_heads, f"{name}_decay") if gated and decay is not None else None,
        beta=beta if rule.endswith("delta") else None,
    )
    states = recurrence.states(past)
    scale = call.attribute("scale") or 1 / math.sqrt(recurrence.query.shape[3])
    result = joined_heads(recurrence.read(states, scale), f"{name}_joined")
    result = operators.cast(result, call.result.dtype, name=name)
    kind = call.types[1] if call.wants(1) else None
    if kind is None:
        return (result,)
    dtype, last = kind.dtype, te.const(states.shape[0] - 1, "int32")
    present = te.compute(recurrence.shape, lambda n, h, i, j: te.cast(dtype, states[last, n, h, i, j]), call.name(1))
    return result, present


SEQUENCES = (
    OperatorRecord(name="CausalConvWithState", fusion=FusionClass.OPAQUE, expression=_causal_convolution),
    OperatorRecord(name="LinearAttention", fusion=FusionClass.OPAQUE, expression=_linear_attention),
    OperatorRecord(name="TensorScatter", fusion=FusionClass.INJECTIVE, expression=_tensor_scatter),
)
