# SPDX-License-Identifier: Apache-2.0
"""Drafts of ONNX's attention and of what stands beside it: rotary embeddings, caches, gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

_FEW_FLOATS = ("float32", "float32", "float64", "float16")


def _attention(draw: Draw) -> NodeDraft:
    dtype = draw.dtype("T1", among=_FEW_FLOATS)
    batch, queries, keys = draw.rank(1, 2), draw.rank(1, 6), draw.rank(1, 6)
    shared, group, size = draw.rank(1, 2), draw.rank(1, 3), draw.rank(1, 5)
    heads, width = shared * group, size if draw.chance() else draw.rank(1, 5)
    joined = draw.chance()
    shapes: list[tuple[int, ...]] = [
        (batch, heads, queries, size), (batch, shared, keys, size), (batch, shared, keys, width)
    ]  # fmt: skip
    attributes: dict[str, Any] = {}
    if joined:
        shapes = [(a, c, b * d) for a, b, c, d in shapes]
        attributes = {"q_num_heads": heads, "kv_num_heads": shared}
    inputs: list[Array | None] = [draw.array(shape, dtype, -2, 2) for shape in shapes]
    past = draw.rank(1, 3) if draw.chance(0.3) else 0
    outputs = draw.pick([1, 4]) if not past else draw.pick([1, 3, 4])
    mask = _mask(draw, (batch, heads, queries, keys + past), dtype)
    lengths = not past and draw.takes(7) and draw.chance(0.2)
    if past or lengths or mask is not None:
        inputs.append(mask)
    if past:
        inputs += [
            draw.array((batch, shared, past, size), dtype, -2, 2),
            draw.array((batch, shared, past, width), dtype, -2, 2),
        ]
    if lengths:
        inputs += [None, None, np.asarray(draw.random.integers(1, keys + 1, size=batch), np.int64)]
        outputs = 1
    attributes |= draw.options(is_causal=[0, 1], scale=[0.5, 1.0], softcap=[2.0], softmax_precision=[1])
    attributes |= draw.options(left_window_size=[-1, 0, 2], right_window_size=[-1, 0, 1])
    if outputs == 4:
        attributes |= draw.options(qk_matmul_output_mode=[0, 1, 2, 3])
    absent = frozenset({1, 2}) if outputs == 4 and not past else frozenset[int]()
    return NodeDraft(inputs, attributes, outputs=outputs, absent=absent)


def _mask(draw: Draw, shape: tuple[int, int, int, int], dtype: str) -> Array | None:
    """Addends, or which keys are seen; some have extents of 1, some end before the last keys."""
    if draw.chance(0.4):
        return None
    batch, heads, queries, keys = shape
    keys = draw.rank(1, keys) if draw.takes(7) and draw.chance(0.2) else keys
    chosen = draw.pick([(queries, keys), (1, queries, keys), (1, 1, queries, keys), (batch, heads, queries, keys)])
    if draw.chance():
        return draw.array(chosen, dtype)
    mask = np.asarray(draw.random.integers(2, size=chosen) == 1)
    mask[..., 0] |= draw.chance(0.8)
    return mask


def _rotary(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=("float32", "float16"))
    batch, heads, steps, size = draw.rank(1, 2), draw.rank(1, 3), draw.rank(1, 5), 2 * draw.rank(1, 4)
    part = draw.pick([0, size, 2])
    attributes: dict[str, Any] = draw.options(interleaved=[0, 1])
    if part or draw.chance():
        attributes["rotary_embedding_dim"] = part
    half = (part or size) // 2
    shape: tuple[int, ...] = (batch, heads, steps, size)
    if draw.chance():
        shape, attributes["num_heads"] = (batch, steps, heads * size), heads
    cache = (8, half)
    positions = np.asarray(draw.random.integers(8, size=(batch, steps)), np.int64)
    inputs: list[Array | None] = [draw.array(shape, dtype)]
    if draw.chance():
        return NodeDraft([*inputs, *(draw.array(cache, dtype, -1, 1) for _ in range(2)), positions], attributes,
                         constant=frozenset({1, 2}))  # fmt: skip
    return NodeDraft(
        [*inputs, *(draw.array((batch, steps, half), dtype, -1, 1) for _ in range(2))], attributes,
        constant=frozenset({1, 2}),
    )  # fmt: skip


def _tensor_scatter(draw: Draw) -> NodeDraft:
    rank = draw.rank(3, 4)
    shape = list(draw.shape(rank, empty=False))
    axis = draw.rank(1, rank - 1)
    update = list(shape)
    update[axis] = draw.rank(1, shape[axis])
    dtype, circular = draw.dtype(), draw.chance()
    last = shape[axis] if circular else shape[axis] - update[axis] + 1
    inputs: list[Array | None] = [draw.array(shape, dtype), draw.array(update, dtype)]
    if draw.chance(0.7):
        inputs.append(np.asarray(draw.random.integers(last, size=shape[0]), np.int64))
    attributes: dict[str, Any] = {"mode": "circular"} if circular else draw.options(mode=["linear"])
    if axis != rank - 2 or draw.chance():
        attributes["axis"] = axis - (rank if draw.chance() else 0)
    return NodeDraft(inputs, attributes)


def _linear_attention(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=("float32", "float16"))
    batch, steps, shared, group = draw.rank(1, 2), draw.rank(1, 5), draw.rank(1, 2), draw.rank(1, 2)
    size, width = draw.rank(1, 4), draw.rank(1, 4)
    rule = draw.pick(["linear", "gated", "delta", "gated_delta"])
    heads = shared * group
    inputs: list[Array | None] = [
        draw.array((batch, steps, count), dtype, -1, 1) for count in (heads * size, shared * size, shared * width)
    ]
    inputs.append(draw.array((batch, shared, size, width), draw.dtype("S", among=(dtype,))) if draw.chance() else None)
    decay = (batch, steps, draw.pick([shared, shared * size]))
    inputs.append(draw.array(decay, dtype, -1, 0) if rule.startswith("gated") else None)
    inputs.append(draw.array((batch, steps, draw.pick([shared, 1])), dtype, 0, 1) if rule.endswith("delta") else None)
    attributes = {"q_num_heads": heads, "kv_num_heads": shared, "update_rule": rule, **draw.options(scale=[0.5, 1.0])}
    return NodeDraft(inputs, attributes, outputs=2)


def _causal_convolution(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=("float32", "float16"))
    batch, channels, steps, taps = draw.rank(1, 2), draw.rank(1, 5), draw.rank(1, 7), draw.rank(2, 4)
    inputs: list[Array | None] = [draw.array((batch, channels, steps), dtype), draw.array((channels, 1, taps), dtype)]
    inputs.append(draw.array((channels,), dtype) if draw.chance() else None)
    inputs.append(draw.array((batch, channels, taps - 1), dtype) if draw.chance() else None)
    options = draw.options(activation=["none", "silu", "swish"])
    return NodeDraft(inputs, options, outputs=2, constant=frozenset({1, 2}))


def _swiglu(draw: Draw) -> NodeDraft:
    shape, dtype = draw.shape(draw.rank(0, 4)), draw.dtype(among=_FEW_FLOATS)
    return NodeDraft([draw.array(shape, dtype), draw.array(shape, dtype)], draw.options(alpha=[0.5, 1.7]))


ATTENTION: Mapping[str, Drafter] = {
    "Attention": _attention,
    "CausalConvWithState": _causal_convolution,
    "LinearAttention": _linear_attention,
    "RotaryEmbedding": _rotary,
    "SwiGLU": _swiglu,
    "TensorScatter": _tensor_scatter,
}
