# SPDX-License-Identifier: Apache-2.0
"""Rules of attention and rotary embeddings: products and a softmax, in float32 at least.

Heads are a dimension, [batch, heads, sequence, size]; three-dimensional inputs have them inside the
last one. Groups of query heads share keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from vdla.compiler import operators, te
from vdla.compiler.graph.integer.attention import why_float
from vdla.compiler.graph.operators.products import batched_product
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, widened
from vdla.compiler.operators.results import to_accumulator

_MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = 3, 4, 5, 6
_ZERO = te.const(0, "int32")
_NEVER = -math.inf


def split_heads(x: te.Tensor, heads: int, name: str) -> te.Tensor:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size]."""
    if len(x.shape) > 3:
        return x
    batch, steps, hidden = x.shape
    size = hidden // heads
    return te.compute((batch, heads, steps, size), lambda n, h, s, d: x[n, s, h * size + d], name)


def joined_heads(x: te.Tensor, name: str) -> te.Tensor:
    """[batch, heads, sequence, size] as [batch, sequence, heads * size]."""
    batch, heads, steps, size = x.shape
    return te.compute((batch, steps, heads * size), lambda n, s, c: x[n, c // size, s, c % size], name)


def _with_past(call: NodeCall, index: int, output: int, now: te.Tensor, name: str) -> te.Tensor:
    """Past keys or values followed by the present ones; an output of the node if it has one."""
    past = call.optional(index)
    title = call.name(output) if call.wants(output) else name
    if past is not None:
        return operators.concat((past, now), 2, name=title)
    return operators.identity(now, name=title) if call.wants(output) else now


def _attention(call: NodeCall) -> tuple[te.Tensor, ...]:
    name = call.name()
    q, k, v = (widened(call.tensor(n), f"{name}_wide{n}") for n in range(3))
    assert q is not None
    assert k is not None
    assert v is not None
    if call.wants(1) and k.dtype != call.tensor(1).dtype:
        call.decline("have keys and values of 32 bits or more as outputs")
    if any(call.optional(n) is not None and call.tensor(n).dtype != k.dtype for n in (_PAST_KEY, _PAST_VALUE)):
        call.decline("have a past of 32 bits or more")
    query = split_heads(q, call.attribute("q_num_heads", 0), f"{name}_q")
    heads = call.attribute("kv_num_heads", 0)
    key = _with_past(call, _PAST_KEY, 1, split_heads(k, heads, f"{name}_k"), f"{name}_keys")
    value = _with_past(call, _PAST_VALUE, 2, split_heads(v, heads, f"{name}_v"), f"{name}_values")
    scores = _Scores(call, query, key)
    weights = scores.weights()
    result = batched_product(call, weights, _for_each_query_head(value, query.shape[1], f"{name}_v"), f"{name}_heads")
    if len(q.shape) == 3:
        result = joined_heads(result, f"{name}_joined")
    shown = [scores.shown(weights)] if call.wants(3) else []
    return (operators.cast(result, call.result.dtype, name=name), key, value, *shown)


def _for_each_query_head(x: te.Tensor, heads: int, name: str) -> te.Tensor:
    """Keys or values repeated for the query heads that share them."""
    if x.shape[1] == heads:
        return x
    group = heads // x.shape[1]
    shape = (x.shape[0], heads, *x.shape[2:])
    return te.compute(shape, lambda n, h, s, d: x[n, h // group, s, d], f"{name}_shared")


class _Scores:
    """The stages from queries and keys to the weights of the values."""

    def __init__(self, call: NodeCall, query: te.Tensor, key: te.Tensor) -> None:
        self.call, self.name = call, call.name()
        self.past = call.tensor(_PAST_KEY).shape[2] if call.optional(_PAST_KEY) is not None else 0
        scale = call.attribute("scale", 0.0) or 1 / math.sqrt(query.shape[-1])
        keys = _for_each_query_head(key, query.shape[1], f"{self.name}_k")
        scaled = operators.elementwise(query, lambda x: x * scale, f"{self.name}_scaled")
        turned = operators.transpose(keys, (0, 1, 3, 2), name=f"{self.name}_turned")
        self.raw = batched_product(call, scaled, turned, f"{self.name}_raw")
        self.capped = self._capped()
        self.biased = te.compute(self.raw.shape, self._biased, f"{self.name}_biased")

    def _capped(self) -> te.Tensor:
        cap = self.call.attribute("softcap")
        if not cap:
            return self.raw
        return operators.elementwise(self.raw, lambda x: te.tanh(x * (1 / cap)) * cap, f"{self.name}_capped")

    def _biased(self, n: te.Value, h: te.Value, i: te.Value, j: te.Value) -> te.Value:
        """A score plus the mask, -inf where query i does not attend key j."""
        total = self.capped[n, h, i, j]
        never = te.const(_NEVER, total.dtype)
        mask = self.call.optional(_MASK)
        if mask is not None:
            total = self._masked(mask, total, (n, h, i, j))
        conditions = self._conditions(n, i, j)
        return te.select(te.all_of(*conditions), total, never) if conditions else total

    def _masked(self, mask: te.Tensor, total: te.Value, index: Sequence[te.Value]) -> te.Value:
        """The mask broadcasts; keys beyond the mask are not attended."""
        never = te.const(_NEVER, total.dtype)
        shape = (1,) * (4 - len(mask.shape)) + tuple(mask.shape)
        at = [
            _ZERO if extent == 1 and d < 3 else place
            for d, (place, extent) in enumerate(zip(index, shape, strict=True))
        ]
        keys = self.raw.shape[3]
        element = mask[tuple(at[4 - len(mask.shape) :])]
        seen = te.select(element, total, never) if mask.dtype == "bool" else total + to_accumulator(element)
        return seen if shape[3] == keys else te.select(index[3] < shape[3], seen, never)

    def _conditions(self, n: te.Value, i: te.Value, j: te.Value) -> list[te.Value]:
        """The conditions for query i to attend key j."""
        call, lengths = self.call, self.call.optional(_LENGTHS)
        conditions, place = [], i + self.past
        if lengths is not None:
            valid = te.cast("int32", lengths[n])
            conditions.append(j < valid)
            place = place if self.past else i + valid - self.raw.shape[2]
        left, right = call.attribute("left_window_size"), call.attribute("right_window_size")
        if call.attribute("is_causal"):
            conditions.append(j <= place)
        if left >= 0:
            conditions.append(j >= place - left)
        if right >= 0:
            conditions.append(j <= place + right)
        return conditions

    def weights(self) -> te.Tensor:
        """The softmax over the keys; 0 for a query that attends none."""
        scores, name = self.biased, self.name
        largest = operators.max(scores, 3, keepdims=True, name=f"{name}_largest")
        never, zero = te.const(_NEVER, scores.dtype), te.const(0, scores.dtype)

        def power(n: te.Value, h: te.Value, i: te.Value, j: te.Value) -> te.Value:
            top = largest[n, h, i, _ZERO]
            return te.select(top == never, zero, te.exp(scores[n, h, i, j] - top))

        powers = te.compute(scores.shape, power, f"{name}_powers")
        total = operators.sum(powers, 3, keepdims=True, name=f"{name}_total")

        def weight(n: te.Value, h: te.Value, i: te.Value, j: te.Value) -> te.Value:
            whole = total[n, h, i, _ZERO]
            return te.select(whole == zero, zero, powers[n, h, i, j] / whole)

        return te.compute(scores.shape, weight, f"{name}_weights")

    def shown(self, weights: te.Tensor) -> te.Tensor:
        """The scores as an output of the node."""
        kind = self.call.types[3]
        assert kind is not None
        chosen = (self.raw, self.capped, self.biased, weights)[self.call.attribute("qk_matmul_output_mode")]
        return operators.cast(chosen, kind.dtype, name=self.call.name(3))


def _rotary(call: NodeCall) -> te.Tensor:
    """Pairs of elements of each head, rotated by the angle of their position."""
    x, cosine, sine, positions = call.tensor(0), call.tensor(1), call.tensor(2), call.optional(3)
    heads = call.attribute("num_heads", 0)
    flat = len(x.shape) == 3
    size = x.shape[2] // heads if flat else x.shape[3]
    turned = call.attribute("rotary_embedding_dim") or size
    half, interleaved = turned // 2, bool(call.attribute("interleaved"))

    def angle(table: te.Tensor, n: te.Value, s: te.Value, pair: te.Value) -> te.Value:
        if positions is None:
            return to_accumulator(table[n, s, pair])
        place = te.clip(te.cast("int32", positions[n, s]), 0, table.shape[0] - 1)
        return to_accumulator(table[place, pair])

    def element(n: te.Value, s: te.Value, d: te.Value, read: Callable[[te.Value], te.Value]) -> te.Value:
        here = to_accumulator(read(d))
        pair = te.minimum(d // 2 if interleaved else d % half, half - 1)
        is_first = d % 2 == 0 if interleaved else d < half
        a = to_accumulator(read(pair * 2 if interleaved else pair))
        b = to_accumulator(read(pair * 2 + 1 if interleaved else pair + half))
        cos, sin = angle(cosine, n, s, pair), angle(sine, n, s, pair)
        rotated = te.select(is_first, cos * a - sin * b, sin * a + cos * b)
        return te.cast(x.dtype, rotated if turned == size else te.select(d < turned, rotated, here))

    if flat:
        return te.compute(
            x.shape,
            lambda n, s, c: element(n, s, c % size, lambda d: x[n, s, c // size * size + d]),
            call.name(),
        )
    return te.compute(x.shape, lambda n, h, s, d: element(n, s, d, lambda e: x[n, h, s, e]), call.name())


ATTENTION = (
    OperatorRecord(name="Attention", fusion=FusionClass.COMPLEX, expression=_attention, integer=why_float),
    OperatorRecord(name="RotaryEmbedding", fusion=FusionClass.INJECTIVE, expression=_rotary),
)
