# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's operators of decoders, by ONNX's: attention with a cache, rotation, RMSNorm.

The cache is [batch, heads of keys, keys, size]; `seqlens_k` has the last place of each sequence.
New keys and values follow the past ones of their sequence, wherever these end.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, TensorProto, helper

from vdla.compiler.graph.onnx.foreign import ForeignOperator
from vdla.compiler.graph.onnx.old_node import OldNode

_KEY, _VALUE, _PAST, _LAST, _TOTAL, _COS, _SIN, _POSITIONS, _BIAS, _SINK, _SCALES = 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12
_NEVER = float("-inf")


def _group_query(old: OldNode) -> list[NodeProto]:
    """Queries attend keys up to their own place; groups of query heads share keys and values."""
    _refuse_variants(old)
    query, key, value = _heads(old)
    past = [old.input(_PAST + i) for i in range(2)]
    if bool(past[0]) != bool(past[1]):
        raise old.refuse("have past keys and past values, got one of them")
    steps, first = old.extent(query, 2), _first_places(old, query)
    if old.take("do_rotary", 0):
        positions = old.input(_POSITIONS) or _places(old, first, steps)
        query, key = (_rotated(old, part, positions) for part in (query, key))
    present = [_appended(old, *pair, first) if pair[0] else pair[1] for pair in zip(past, (key, value), strict=True)]
    for name, shown in zip(present, [*old.node.output[1:3]], strict=False):
        if shown:
            old.made.append(helper.make_node("Identity", [name], [shown]))
    mask = _mask(old, first, steps, present[0])
    if old.take("smooth_softmax", 0) or old.input(_SINK):
        present, mask = _with_sink(old, present, mask, query)
    scale, cap = old.take("scale", 0.0), old.take("softcap", 0.0)
    options = {name: number for name, number in (("scale", scale), ("softcap", cap)) if number}
    seen = old.value("Attention", [query, *present, mask], **options)
    old.attributes.clear()
    rows = old.value("Transpose", [seen], perm=[0, 2, 1, 3])
    return old.final("Reshape", [rows, old.integers([0, 0, -1], "shape")], old.node.output[:1])


def _refuse_variants(old: OldNode) -> None:
    if any(old.node.output[3:]):
        raise old.refuse("not show its scores, got a fourth output")
    if old.input(_SCALES) or old.input(_SCALES + 1) or old.take("kv_cache_bit_width", 0):
        raise old.refuse("have a cache of floats, got k_scale, v_scale or kv_cache_bit_width")
    if bool(old.input(_KEY)) != bool(old.input(_VALUE)):
        raise old.refuse("have keys and values, got one of them")
    heads, groups = old.peek("num_heads", 1), old.peek("kv_num_heads", 1)
    if heads % groups:
        raise old.refuse(f"have num_heads that kv_num_heads divides, got {heads} and {groups}")
    if old.peek("do_rotary", 0) and not (old.input(_COS) and old.input(_SIN)):
        raise old.refuse("have cos_cache and sin_cache where do_rotary is 1, got none")


def _heads(old: OldNode) -> list[str]:
    """Queries, keys and values as [batch, heads, sequence, size], from three inputs or from one."""
    counts = [old.take("num_heads"), *[old.take("kv_num_heads")] * 2]
    if old.input(_KEY):
        return [_split(old, old.input(part), count) for part, count in enumerate(counts)]
    packed = _split(old, old.input(0), sum(counts))
    names = [old.fresh(f"part{i}_") for i in range(3)]
    old.made.append(helper.make_node("Split", [packed, old.integers(counts, "heads")], names, axis=1))
    return names


def _split(old: OldNode, rows: str, heads: int) -> str:
    shape = old.integers([0, 0, heads, -1], "shape")
    return old.value("Transpose", [old.value("Reshape", [rows, shape])], perm=[0, 2, 1, 3])


def _first_places(old: OldNode, query: str) -> str:
    """The place of the first query of each sequence, [batch]; without a past, sequences may be
    shorter than the longest one.
    """
    last = old.value(
        "Cast", [old.value("Reshape", [old.input(_LAST), old.integers([-1], "row")])], to=TensorProto.INT64
    )
    before = old.value("Sub", [old.integers([1], "one"), old.extent(query, 2)])
    return old.value("Max", [old.value("Add", [last, before]), old.integers([0], "zero")])


def _range(old: OldNode, count: str) -> str:
    return old.value("Range", [old.index(0), old.value("Squeeze", [count]), old.index(1)])


def _places(old: OldNode, first: str, steps: str) -> str:
    """The place of each query, [batch, sequence]."""
    column = old.value("Unsqueeze", [first, old.integers([1], "axes")])
    return old.value("Add", [column, _range(old, steps)])


def _rotated(old: OldNode, heads: str, positions: str) -> str:
    tables = [old.input(_COS), old.input(_SIN)]
    return _rotation(old, heads, tables, positions, bool(old.peek("rotary_interleaved", 0)))


def _rotation(old: OldNode, heads: str, tables: list[str], positions: str, interleaved: bool) -> str:
    """Heads of four dimensions, rotated: all elements, or as many as the tables have pairs for."""
    half = (old.extents(tables[0]) or [None])[-1]
    whole = old.value("Cast", [positions], to=TensorProto.INT64)
    if half is None:
        raise old.refuse("have cos_cache of a known size, got an unknown one")
    angles = [old.value("Cast", [name], to=old.float_code(old.input(0))) for name in tables]
    options = {"interleaved": int(interleaved), "rotary_embedding_dim": 2 * half}
    return old.value("RotaryEmbedding", [heads, *angles, whole], **options)


def _appended(old: OldNode, past: str, new: str, first: str) -> str:
    """The cache with new keys or values; it grows where the longest sequence needs more places."""
    room = old.extent(past, 2)
    total = old.value(
        "Cast", [old.value("Reshape", [old.input(_TOTAL), old.integers([1], "one")])], to=TensorProto.INT64
    )
    more = old.value("Max", [old.value("Sub", [total, room]), old.integers([0], "zero")])
    pads = old.value("Concat", [old.integers([0] * 6, "pads"), more, old.integers([0], "pad")], axis=0)
    wide = old.value("Pad", [past, pads])
    return old.value("TensorScatter", [wide, new, first], axis=2)


def _mask(old: OldNode, first: str, steps: str, keys: str) -> str:
    """Which keys a query sees, [batch, 1, sequence, keys]; an addend where the node has a bias."""
    bias, window = old.input(_BIAS), old.take("local_window_size", -1)
    place = old.value("Unsqueeze", [_places(old, first, steps), old.integers([1, 3], "axes")])
    key = _range(old, old.extent(bias, 3) if bias else old.extent(keys, 2))
    seen = old.value("LessOrEqual", [key, place])
    if window > 0:
        near = old.value("Greater", [key, old.value("Sub", [place, old.index(window)])])
        seen = old.value("And", [seen, near])
    return old.value("Where", [seen, bias, _never(old)]) if bias else seen


def _never(old: OldNode) -> str:
    dtype = helper.tensor_dtype_to_np_dtype(old.float_code(old.input(0)))
    return old.constant(np.array(_NEVER, dtype), "never")


def _with_sink(old: OldNode, present: list[str], mask: str, query: str) -> tuple[list[str], str]:
    """Keys and values behind one of zeros, whose score is 0 or that of the input `head_sink`."""
    dtype = helper.tensor_dtype_to_np_dtype(old.float_code(old.input(0)))
    zero = old.constant(np.zeros((), dtype), "zero")
    column = old.integers([0, 0, 1, 0, 0, 0, 0, 0], "pads")
    wide = [old.value("Pad", [part, column, zero]) for part in present]
    addend = mask if old.input(_BIAS) else old.value("Where", [mask, zero, _never(old)])
    if old.input(_SINK):
        sink = old.value("Reshape", [old.input(_SINK), old.integers([1, -1, 1, 1], "shape")])
    else:
        sink = old.constant(np.zeros((1, 1, 1, 1), dtype), "sink")
    rows = [old.extent(query, 0), old.extent(query, 1), old.extent(query, 2)]
    shape = old.value("Concat", [*rows, old.integers([1], "one")], axis=0)
    keys = old.value("Concat", [*rows, old.extent(addend, 3)], axis=0)
    parts = [old.value("Expand", pair) for pair in ((sink, shape), (addend, keys))]
    return wide, old.value("Concat", parts, axis=3)


def _rotary(old: OldNode) -> list[NodeProto]:
    """Rotation of [batch, sequence, heads * size] or [batch, heads, sequence, size]."""
    if old.take("is_packed_batching", 0):
        raise old.refuse("have sequences of one length, got is_packed_batching = 1")
    scale = old.take("scale", 1.0)
    if scale != 1:
        raise old.refuse(f"have a scale of 1, got {scale:g}")
    rows, rank = old.input(0), old.rank(old.input(0))
    if rank not in (3, 4):
        raise old.refuse(f"have an input of 3 or 4 dimensions, got {'an unknown rank' if rank is None else rank}")
    size = (old.extents(old.input(2)) or [None])[-1]
    heads = old.take("num_heads", 0)
    if rank == 3 and size is None and not heads:
        raise old.refuse("have num_heads, or a cos_cache of a known size, got neither")
    old.take("rotary_embedding_dim", 0)  # twice the width of the tables
    shape = old.integers([0, 0, heads, -1] if heads else [0, 0, -1, 2 * (size or 0)], "shape")
    apart = old.value("Transpose", [old.value("Reshape", [rows, shape])], perm=[0, 2, 1, 3]) if rank == 3 else rows
    positions = _all_positions(old, apart)
    interleaved = bool(old.take("interleaved", 0))
    turned = _rotation(old, apart, [old.input(2), old.input(3)], positions, interleaved)
    if rank == 4:
        return old.final("Identity", [turned])
    back = old.value("Transpose", [turned], perm=[0, 2, 1, 3])
    return old.final("Reshape", [back, old.value("Shape", [rows])])


def _all_positions(old: OldNode, heads: str) -> str:
    """Positions [batch, sequence]; an input of one element is the first one of all sequences."""
    given = old.value("Cast", [old.input(1)], to=TensorProto.INT64)
    if old.rank(old.input(1)) == 2:
        return given
    batch = old.extent(heads, 0)
    return _places(old, old.value("Expand", [given, batch]), old.extent(heads, 2))


def _simplified_normalization(old: OldNode) -> list[NodeProto]:
    """RMSNorm; ONNX has no result for the inverse deviation."""
    if any(old.node.output[1:]):
        raise old.refuse("not have the result of training, inv_std_var")
    return old.final("RMSNormalization", [old.input(0), old.input(1)], old.node.output[:1])


SIMPLIFIED = ForeignOperator(_simplified_normalization, "X scale")
"""RMSNorm as ONNX Runtime's optimiser writes it, in ONNX's own domain although no schema has it."""
DECODERS: Mapping[str, ForeignOperator] = {
    "GroupQueryAttention": ForeignOperator(
        _group_query,
        "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? position_ids? "
        "attention_bias? head_sink? k_scale? v_scale?",
        "num_heads kv_num_heads",
    ),
    "RotaryEmbedding": ForeignOperator(_rotary, "input position_ids cos_cache sin_cache"),
    "SimplifiedLayerNormalization": SIMPLIFIED,
}
"""The expansions of its operators."""
