# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's attention, of the domain com.microsoft, by ONNX's.

Operands become [batch, sequence, heads * size]; all forms of masks become one addend of the
scores, [batch, 1, queries or 1, keys].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto, helper

from vdla.compiler.graph.onnx.foreign import ForeignOperator
from vdla.compiler.graph.onnx.old_node import OldNode

_LOWEST = float(np.finfo(np.float32).min)
_MASKED = 2  # the mode of ONNX's Attention in which the scores that it shows include the mask
_BATCH, _STEPS, _SIZE = range(3)
_QUERY, _KEY, _VALUE = range(3)


@dataclass(frozen=True)
class _AttentionOperands:
    """What attends to what; absent values have the empty name."""

    parts: list[str]  # queries, keys and values
    mask: str
    bias: str
    past: list[str]  # keys and values
    results: list[str]  # the result, present keys and values, and the scores
    like: str  # a value of their element type
    as_many_keys: bool  # whether there are as many keys as queries, without those of the past


# --- where the operands are -----------------------------------------------------------------------


def _attention(old: OldNode) -> list[NodeProto]:
    total = old.value("MatMul", [old.input(0), old.input(1)])
    return _of_projected(old, total, like=0, bias=2, mask=3, past=4, added=5)


def _q_attention(old: OldNode) -> list[NodeProto]:
    """As Attention, its product one of integers."""
    data, weight, x_scale, w_scale, x_zero, w_zero = (old.input(place) for place in (0, 1, 3, 4, 6, 7))
    zeros = [x_zero or old.constant(np.zeros((), old.dtype(data)), "zero_point"), *([w_zero] if w_zero else [])]
    sums = old.value("Cast", [old.value("MatMulInteger", [data, weight, *zeros])], to=old.float_code(x_scale))
    total = old.value("Mul", [sums, old.value("Mul", [x_scale, w_scale])])
    return _of_projected(old, total, like=3, bias=2, mask=5, past=8, added=9)


def _of_projected(old: OldNode, total: str, **places: int) -> list[NodeProto]:
    """Attention of queries, keys and values side by side; the past has keys, then values."""
    like, bias, mask, past, added = (old.input(places[name]) for name in ("like", "bias", "mask", "past", "added"))
    if old.take("past_present_share_buffer", 0):
        raise old.refuse("have a past and a present of their own, got past_present_share_buffer = 1")
    if old.take("do_rotary", 0):
        raise old.refuse("not rotate, got do_rotary = 1")
    total = old.value("Add", [total, bias]) if bias else total
    sizes = old.take("qkv_hidden_sizes")
    pair = [old.value("Gather", [past, old.index(i)], axis=0) for i in range(2)] if past else []
    present = old.node.output[1] if len(old.node.output) > 1 else ""
    results = [old.node.output[0], *([old.fresh("key"), old.fresh("value")] if present else ["", ""]), ""]
    parts = _three(old, total, sizes)
    operands = _AttentionOperands(
        parts=parts, mask=mask, bias=added, past=pair, results=results, like=like, as_many_keys=True
    )
    nodes = _attended(old, operands)
    if not present:
        return nodes
    axis = helper.make_node("Constant", [], [old.fresh("axis")], value_ints=[0])
    stacked = [helper.make_node("Unsqueeze", [name, axis.output[0]], [f"{name}_stacked"]) for name in results[1:3]]
    joined = helper.make_node("Concat", [node.output[0] for node in stacked], [present], axis=0)
    return [*nodes, axis, *stacked, joined]


def _multi_head_attention(old: OldNode) -> list[NodeProto]:
    if old.input(8) or old.input(9):
        raise old.refuse("have a past of its full length, got past_sequence_length or cache_indirection")
    if bool(old.input(6)) != bool(old.input(7)):
        raise old.refuse("have past keys and past values, got one of them")
    parts = _biased(old, _parts(old))
    past = [old.input(6), old.input(7)] if old.input(6) else []
    results = [*old.node.output, "", "", ""][:4]
    operands = _AttentionOperands(
        parts=parts,
        mask=old.input(4),
        bias=old.input(5),
        past=past,
        results=results,
        like=old.input(0),
        as_many_keys=_has_as_many_keys(old),
    )
    return _attended(old, operands)


def _has_as_many_keys(old: OldNode) -> bool:
    query, key = old.input(0), old.input(1)
    steps = old.dimension(key, 2 if old.rank(key) == 4 else 1)
    return not key or query == key or (steps is not None and steps == old.dimension(query, 1))


def _parts(old: OldNode) -> list[str]:
    """Queries, keys and values of three dimensions."""
    names = [name for name in map(old.input, range(3)) if name]
    ranks = [3 if old.rank(name) is None else old.rank(name) for name in names]
    match ranks:
        case [5]:
            return _unpacked(old, names[0], 3)
        case [3, 5]:
            return [names[0], *_unpacked(old, names[1], 2)]
        case [3, 3, 3]:
            return names
        case [3, 4, 4]:
            turned = [old.value("Transpose", [name], perm=[0, 2, 1, 3]) for name in names[1:]]
            sizes = [(old.extents(name) or [None])[-1] for name in names[1:]]
            return [names[0], *(_joined(old, *pair) for pair in zip(turned, sizes, strict=True))]
        case _:
            forms = "queries, keys and values of 3 dimensions, the last two of 4, or packed ones of 5"
            raise old.refuse(f"have {forms}, got {ranks}")


def _unpacked(old: OldNode, packed: str, count: int) -> list[str]:
    """The parts of a value of [batch, sequence, heads, count, size]."""
    names = [old.fresh(f"packed{i}_") for i in range(count)]
    old.made.append(helper.make_node("Split", [packed], names, axis=3, num_outputs=count))
    return [_joined(old, name, (old.extents(packed) or [None])[-1]) for name in names]


def _joined(old: OldNode, value: str, size: int | None) -> str:
    """A value of [batch, sequence, ...], its heads and their elements in one dimension."""
    hidden = -1 if size is None else size * old.peek("num_heads", 1)
    return old.value("Reshape", [value, old.integers([0, 0, hidden], "shape")])


def _biased(old: OldNode, parts: list[str]) -> list[str]:
    """The parts plus their share of the bias; keys and values of four dimensions have no share."""
    bias = old.input(3)
    if not bias:
        return parts
    query, value = _hidden(old, _QUERY), _hidden(old, _VALUE)
    sizes = _sizes(old, parts) if query is None or value is None else old.integers([query, query, value], "sizes")
    names = [old.fresh(f"bias{i}_") for i in range(3)]
    old.made.append(helper.make_node("Split", [bias, sizes], names, axis=-1))
    count = 1 if old.rank(old.input(1)) == 4 else 3
    return [*(old.value("Add", pair) for pair in zip(parts[:count], names, strict=False)), *parts[count:]]


def _hidden(old: OldNode, part: int) -> int | None:
    """The extent of all heads of a part, if it is known; packed parts lie in an earlier operand."""
    name = next(name for name in (old.input(part), old.input(1), old.input(0)) if name)
    size: int | None = (old.extents(name) or [None])[-1]
    return size if size is None or (old.rank(name) or 3) == 3 else size * old.peek("num_heads", 1)


def _sizes(old: OldNode, parts: list[str]) -> str:
    query, value = (old.extent(parts[i], _SIZE) for i in (_QUERY, _VALUE))
    return old.value("Concat", [query, query, value], axis=0)


def _three(old: OldNode, value: str, sizes: list[int] | None) -> list[str]:
    names = [old.fresh(f"part{i}_") for i in range(3)]
    if sizes:
        old.made.append(helper.make_node("Split", [value, old.integers(sizes, "sizes")], names, axis=-1))
    else:
        old.made.append(helper.make_node("Split", [value], names, axis=-1, num_outputs=3))
    return names


# --- attention itself -----------------------------------------------------------------------------


def _attended(old: OldNode, operands: _AttentionOperands) -> list[NodeProto]:
    heads, causal, scale = old.take("num_heads"), old.take("unidirectional", 0), old.take("scale", 0.0)
    masked = old.take("mask_filter_value", -10000.0)
    exact = bool(causal) and _is_exact(operands, masked)
    addend = _mask(old, operands, masked) if operands.mask else ""
    addend = _causal(old, operands, addend) if exact else addend
    added = [name for name in (addend, operands.bias) if name]
    total = old.value("Add", added) if len(added) == 2 else "".join(added)
    attributes = {"q_num_heads": heads, "kv_num_heads": heads, "is_causal": int(bool(causal) and not exact)}
    attributes |= {"scale": scale} if scale else {}
    attributes |= {"qk_matmul_output_mode": _MASKED} if operands.results[3] else {}
    results = list(operands.results)
    if operands.past:  # ONNX's has either both, or neither
        results[1:3] = [name or old.fresh(f"present{i}_") for i, name in enumerate(results[1:3])]
    else:
        _show_heads(old, operands, heads)
        results[1:3] = ["", ""]
    while not results[-1]:
        results.pop()
    inputs = [*operands.parts, total, *operands.past]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node("Attention", inputs, results, name=old.node.name, **attributes)
    return [*old.made, node]


def _show_heads(old: OldNode, operands: _AttentionOperands, heads: int) -> None:
    """Present keys and values where there are no past ones; of those of Attention ONNX infers no
    types.
    """
    for part, result in zip(operands.parts[1:], operands.results[1:3], strict=True):
        if result:
            split = old.value("Reshape", [part, old.integers([0, 0, heads, -1], "shape")])
            old.made.append(helper.make_node("Transpose", [split], [result], perm=[0, 2, 1, 3]))


def _is_exact(operands: _AttentionOperands, masked: float) -> bool:
    """Whether is_causal of ONNX differs: ONNX Runtime adds the lowest float32, shows it in the
    scores, and lets the last query attend all keys.
    """
    shows = bool(operands.results[3])
    return shows or not operands.as_many_keys or (bool(operands.mask) and masked <= _LOWEST / 2)


def _mask(old: OldNode, operands: _AttentionOperands, masked: float) -> str:
    """The addend of a mask: 0 where a key is seen."""
    rank = old.rank(operands.mask)
    whole = old.value("Cast", [operands.mask], to=TensorProto.INT64)
    match rank:
        case 1:
            seen = _within(old, operands, whole)
        case 2 | 3:
            shown = old.value("Unsqueeze", [whole, old.integers([1, 2] if rank == 2 else [1], "axes")])
            seen = old.value("Greater", [shown, old.index(0)])
        case 4:
            queries, keys = (old.extent(operands.parts[_QUERY], _STEPS), _keys(old, operands))
            first = old.value("Concat", [old.value("Sub", [keys, queries]), old.integers([0], "column")], axis=0)
            last = old.value("Concat", [keys, keys], axis=0)
            shown = old.value("Slice", [whole, first, last, old.integers([2, 3], "axes")])
            seen = old.value("Greater", [shown, old.index(0)])
        case _:
            raise old.refuse(f"have a mask of 1 to 4 dimensions, got {'an unknown rank' if rank is None else rank}")
    return old.value("Where", [seen, *(old.scalar_like(value, operands.like) for value in (0, masked))])


def _within(old: OldNode, operands: _AttentionOperands, mask: str) -> str:
    """Which keys lie before the ends [batch], and behind the starts, where these follow the ends.

    A mask of 3 * batch + 2 has the ends and, in place of starts, offsets of packed sequences.
    """
    batch, axis, column = (old.extent(operands.parts[_QUERY], _BATCH), old.integers([0], "axis"), [1, 2, 3])
    twice = old.value("Add", [batch, batch])
    none = old.value("Expand", [old.index(0), batch])
    ends = old.value("Slice", [mask, axis, batch, axis])
    starts = old.value("Slice", [old.value("Concat", [mask, none], axis=0), batch, twice, axis])
    has_starts = old.value("Cast", [old.value("Equal", [old.value("Shape", [mask]), twice])], to=TensorProto.INT64)
    ends, starts = (
        old.value("Unsqueeze", [name, old.integers(column, "axes")])
        for name in (ends, old.value("Mul", [starts, has_starts]))
    )
    place = _range(old, _keys(old, operands))
    both = old.value("Less", [place, ends]), old.value("GreaterOrEqual", [place, starts])
    return old.value("And", both)


def _causal(old: OldNode, operands: _AttentionOperands, addend: str) -> str:
    """The addend, the lowest number where a key lies behind a query that is not the last one."""
    queries = old.extent(operands.parts[_QUERY], _STEPS)
    row = old.value("Unsqueeze", [_range(old, queries), old.integers([1], "axes")])
    offset = old.extent(operands.past[0], 2) if operands.past else old.integers([0], "past")
    last = old.value("Equal", [row, old.value("Sub", [queries, old.integers([1], "one")])])
    before = old.value("LessOrEqual", [_range(old, _keys(old, operands)), old.value("Add", [row, offset])])
    zero, lowest = (old.scalar_like(value, operands.like) for value in (0, _LOWEST))
    return old.value("Where", [old.value("Or", [before, last]), addend or zero, lowest])


def _keys(old: OldNode, operands: _AttentionOperands) -> str:
    """How many keys there are, those of the past included."""
    present = old.extent(operands.parts[_KEY], _STEPS)
    return old.value("Add", [old.extent(operands.past[0], 2), present]) if operands.past else present


def _range(old: OldNode, count: str) -> str:
    """The integers below a vector of one element."""
    limit = old.value("Squeeze", [count])
    return old.value("Range", [old.index(0), limit, old.index(1)])


ATTENTION: Mapping[str, ForeignOperator] = {
    "Attention": ForeignOperator(
        _attention, "input weights bias? mask_index? past? attention_bias? past_sequence_length?", "num_heads"
    ),
    "MultiHeadAttention": ForeignOperator(
        _multi_head_attention,
        "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length? "
        "cache_indirection?",
        "num_heads",
    ),
    "QAttention": ForeignOperator(
        _q_attention,
        "input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?",
        "num_heads",
    ),
}
"""The expansions of its operators."""
