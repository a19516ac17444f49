# SPDX-License-Identifier: Apache-2.0
"""Attention, rotary embeddings, linear attention. Short floats are computed in float32.

Heads are an axis of their own: [batch, heads, sequence, size]. Three-dimensional inputs have the
heads inside of their last axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import numpy_dtype, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def split_heads(x: Array, heads: int) -> Array:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size]."""
    if x.ndim > 3:
        return x
    batch, steps, hidden = x.shape
    return x.reshape(batch, steps, heads, hidden // heads).transpose(0, 2, 1, 3)


def joined_heads(x: Array) -> Array:
    """[batch, heads, sequence, size] as [batch, sequence, heads * size]."""
    batch, heads, steps, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, steps, heads * size)


def _attention(
    attributes: Attributes,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    lengths: Array | None = None,
) -> tuple[Array, ...]:
    """The result, the keys and values with those of the past, and the scores of the mode."""
    query = split_heads(q, attributes.get("q_num_heads", 0))
    key, value = (split_heads(x, attributes.get("kv_num_heads", 0)) for x in (k, v))
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        key, value = np.concatenate([past_key, key], 2), np.concatenate([past_value, value], 2)
    raw = _scores(attributes, query, key)
    cap = attributes.get("softcap", 0.0)
    capped = np.tanh(raw / cap) * cap if cap else raw
    biased = capped + _bias(attributes, raw.shape, mask, past, lengths)
    kind = numpy_dtype(attributes.get("softmax_precision") or "float32")
    weights = _weights(biased.astype(np.promote_types(widened(np.zeros(0, kind)).dtype, biased.dtype)))
    result = np.matmul(weights, np.repeat(widened(value), query.shape[1] // value.shape[1], 1))
    shown = (raw, capped, biased, weights)[attributes.get("qk_matmul_output_mode", 0)]
    merged = joined_heads(result) if q.ndim == 3 else result
    return merged.astype(q.dtype), key, value, shown.astype(q.dtype)


def _scores(attributes: Attributes, query: Array, key: Array) -> Array:
    """The scaled products of queries and keys; groups of heads share keys."""
    scale = attributes.get("scale") or 1 / math.sqrt(query.shape[-1] or 1)
    keys = np.repeat(widened(key), query.shape[1] // key.shape[1], 1)
    root = math.sqrt(scale)
    return np.asarray(np.matmul(widened(query) * root, np.swapaxes(keys * root, 2, 3)))


def _bias(
    attributes: Attributes, shape: tuple[int, ...], mask: Array | None, past: int, lengths: Array | None
) -> Array:
    """What is added to the scores: the mask, -inf where a query does not attend a key."""
    batch, _, queries, keys = shape
    bias = np.zeros((batch, 1, queries, keys), np.float32)
    if mask is not None:
        added = np.where(mask, 0, -np.inf) if mask.dtype.kind == "b" else widened(mask)
        missing = keys - added.shape[-1]
        bias = bias + np.pad(added, [*((0, 0),) * (mask.ndim - 1), (0, missing)], constant_values=-np.inf)
    offset = np.full(batch, past)
    if lengths is not None:
        offset = lengths - queries if not past else offset
        bias = np.where(np.arange(keys) < lengths.reshape(-1, 1, 1, 1), bias, -np.inf)
    place = offset.reshape(-1, 1, 1, 1) + np.arange(queries).reshape(-1, 1)
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    seen = np.ones((batch, 1, queries, keys), bool)
    if attributes.get("is_causal", 0):
        seen &= np.arange(keys) <= place
    if left >= 0:
        seen &= np.arange(keys) >= place - left
    if right >= 0:
        seen &= np.arange(keys) <= place + right
    return np.where(seen, bias, -np.inf)


def _weights(scores: Array) -> Array:
    """The softmax over keys; 0 for a query that attends none."""
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = powers.sum(-1, keepdims=True)
    return np.asarray(powers / np.where(total == 0, 1, total))


def _rotary(
    attributes: Attributes, x: Array, cosine: Array, sine: Array, positions: Array | None = None
) -> tuple[Array]:
    """Pairs of elements of each head, rotated by the angle of their position."""
    heads = split_heads(widened(x), attributes.get("num_heads", 0))
    cos, sin = (widened(t) if positions is None else widened(t)[positions] for t in (cosine, sine))
    cos, sin = cos[:, None], sin[:, None]
    turned = attributes.get("rotary_embedding_dim", 0) or heads.shape[-1]
    part, rest = heads[..., :turned], heads[..., turned:]
    if attributes.get("interleaved", 0):
        a, b = part[..., ::2], part[..., 1::2]
        rotated = np.stack([cos * a - sin * b, sin * a + cos * b], -1).reshape(part.shape)
    else:
        a, b = np.split(part, 2, -1)
        rotated = np.concatenate([cos * a - sin * b, sin * a + cos * b], -1)
    result = np.concatenate([rotated, rest], -1)
    return ((joined_heads(result) if x.ndim == 3 else result).astype(x.dtype),)


def _linear_attention(
    attributes: Attributes,
    q: Array,
    k: Array,
    v: Array,
    past: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
) -> tuple[Array, Array]:
    """A state of keys by values for each head, updated step by step."""
    q_heads, kv_heads = attributes["q_num_heads"], attributes["kv_num_heads"]
    query, key, value = (split_heads(widened(x), n) for x, n in ((q, q_heads), (k, kv_heads), (v, kv_heads)))
    rule = attributes.get("update_rule", "gated_delta")
    batch, _, steps, size = key.shape
    scale = attributes.get("scale", 0.0) or 1 / math.sqrt(query.shape[-1] or 1)
    shape = (batch, kv_heads, size, value.shape[-1])
    state = np.zeros(shape, key.dtype) if past is None else widened(past)
    gates = None if decay is None else np.exp(split_heads(widened(decay), kv_heads))  # [B, H, T, 1 or size]
    rates = None if beta is None else widened(beta).transpose(0, 2, 1)  # [B, H or 1, T]
    rows = []
    for t in range(steps):
        if rule.startswith("gated") and gates is not None:
            state = state * gates[:, :, t, :, None]
        target = value[:, :, t]
        if rule.endswith("delta") and rates is not None:
            target = (target - np.einsum("bhkv,bhk->bhv", state, key[:, :, t])) * rates[:, :, t, None]
        state = state + key[:, :, t, :, None] * target[:, :, None, :]
        seen = np.repeat(state, q_heads // kv_heads, 1)
        rows.append(scale * np.einsum("bhk,bhkv->bhv", query[:, :, t], seen))
    made = np.stack(rows, 2) if rows else np.zeros((batch, q_heads, 0, value.shape[-1]))
    return joined_heads(made).astype(q.dtype), state.astype(q.dtype if past is None else past.dtype)


ATTENTION: Mapping[str, Function] = {
    "Attention": _attention,
    "LinearAttention": _linear_attention,
    "RotaryEmbedding": _rotary,
}
