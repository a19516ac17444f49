# SPDX-License-Identifier: Apache-2.0
"""Attention of int8 queries over int8 keys and values in NumPy: the definition of vdla.QAttention.

Scores, shares and results have 8 bits, and a share 254 steps. A place that a query does not attend
has the least score and no value: its share, nothing unless all scores are low, is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.numerics import scales_from_floats
from vdla.runtime.numpy_operators.attention import joined_heads, split_heads
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.integer_rows import row_softmax
from vdla.runtime.numpy_operators.requantise import Int8, Int64, requantise

SHARES = 254
"""The steps of a share of 1."""
_SHARE_BITS = 24
_LOW, _HIGH = -128, 127


def attention(
    query: Int8,
    key: Int8,
    value: Int8,
    mask: npt.NDArray[np.bool_] | None = None,
    past_key: Int8 | None = None,
    past_value: Int8 | None = None,
    *,
    heads: int,
    kv_heads: int,
    causal: int,
    factor: int,
    score_multiplier: Int64,
    score_shift: Int64,
    multiplier: Int64,
    shift: Int64,
    **results: Any,  # noqa: ANN401  the zero point and the bounds of results
) -> tuple[Int8, Int8, Int8]:
    """The result, and past and present keys and values, [batch, heads, places, size]."""
    queries, keys, values = split_heads(query, heads), split_heads(key, kv_heads), split_heads(value, kv_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        keys, values = np.concatenate([past_key, keys], 2), np.concatenate([past_value, values], 2)
    shared = [np.repeat(x, heads // kv_heads, 1) for x in (keys, values)]
    scores = requantise(_product(queries, shared[0].swapaxes(2, 3)), score_multiplier, score_shift, 0, _LOW, _HIGH)
    attended = _attended(scores.shape, mask, past, causal=bool(causal))
    scores = np.where(attended, scores, np.int8(_LOW))
    of_shares = dict(zip(("multiplier", "shift"), scales_from_floats(SHARES / (1 << _SHARE_BITS)), strict=True))
    shares = row_softmax(scores, factor=factor, **of_shares, y_zero_point=-_HIGH, low=-_HIGH, high=_HIGH)
    kept = np.where(attended, shares.astype(np.int16) + _HIGH, 0)
    made = requantise(_product(kept, shared[1]), multiplier, shift, **results)
    return joined_heads(made) if query.ndim == 3 else made, keys, values


def _product(a: Array, b: Array) -> Int64:
    """Sums far below 2**53, which float64 has exactly."""
    return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64))


def _attended(shape: tuple[int, ...], mask: Array | None, past: int, *, causal: bool) -> Array:
    """Whether a query attends a place, of scores of a shape."""
    *_, queries, places = shape
    attended = np.ones((queries, places), np.bool_)
    if causal:
        attended = np.arange(places) <= past + np.arange(queries)[:, None]
    return attended if mask is None else attended & mask


def _attention(attributes: Attributes, *inputs: Array) -> tuple[Array, ...]:
    return attention(*inputs, **attributes)


INTEGER_ATTENTION: Mapping[str, Function] = {"vdla.QAttention": _attention}
