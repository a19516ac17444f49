# SPDX-License-Identifier: Apache-2.0
"""Drafts of ONNX Runtime's fused operators: activations, products, normalisations, attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter
from vdla.verification.grids.networks import image_shape, matrices
from vdla.verification.grids.quantised import scale_of, zero_of

_EIGHT_BITS = ("int8", "uint8")


def _given(draw: Draw, x: Array, share: float = 0.5) -> Array | None:
    """An operand in that share of the draws."""
    return x if draw.chance(share) else None


# --- activations ----------------------------------------------------------------------------------


def _activation(draw: Draw) -> NodeDraft:
    x = draw.array(draw.shape(draw.rank(1, 4)))
    inputs: list[Array | None] = [x]
    if draw.version.name == "BiasGelu" or (draw.version.name == "FastGelu" and draw.chance()):
        inputs.append(draw.array(x.shape[-1:]))
    alpha = draw.version.name == "QuickGelu" and draw.chance()
    return NodeDraft(inputs, {"alpha": draw.pick([1.0, 0.5])} if alpha else {}, constant=frozenset({1}))


_PARAMETERS: Mapping[str, tuple[float, ...]] = {
    "": (), "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": (0.1,), "Clip": (-1.0, 2.0), "HardSigmoid": (0.25, 0.5)
}  # fmt: skip


def _fused_conv(draw: Draw) -> NodeDraft:
    kernel = [draw.pick([1, 2, 3]) for _ in range(2)]
    group, inner, outer = draw.pick([(1, 3, 4), (2, 4, 6), (4, 4, 4)])
    name = draw.pick(list(_PARAMETERS))
    attributes: dict[str, Any] = {"group": group, "kernel_shape": kernel}
    if draw.chance():
        attributes |= {"strides": [2, 1], "pads": [1, 0, 0, 1]}
    if name:
        attributes["activation"] = name
        if _PARAMETERS[name]:
            attributes["activation_params"] = list(_PARAMETERS[name])
    x = draw.array(image_shape(draw, inner, kernel))
    inputs: list[Array | None] = [x, draw.array((outer, inner // group, *kernel))]
    if draw.chance(0.6):
        inputs.append(_given(draw, draw.array((outer,))))
    if "strides" not in attributes and len(inputs) == 3 and draw.chance():
        inputs.append(draw.array((x.shape[0], outer, *(a - b + 1 for a, b in zip(x.shape[2:], kernel, strict=True)))))
    return NodeDraft(inputs, attributes, constant=frozenset({1, 2}))


# --- products -------------------------------------------------------------------------------------


def _fused_gemm(draw: Draw) -> NodeDraft:
    m, k, n = draw.extent(), draw.extent(), draw.extent()
    swapped = draw.pick([0, 1]), draw.pick([0, 1])
    attributes: dict[str, Any] = {"transA": swapped[0], "transB": swapped[1], "alpha": draw.pick([0.5, 1.0])}
    name = draw.pick(["Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid"])
    attributes["activation"] = name
    values = zip(("alpha", "beta"), _PARAMETERS[name], strict=False)
    attributes |= {f"activation_{key}": value for key, value in values}
    inputs = [draw.array((k, m) if swapped[0] else (m, k)), draw.array((n, k) if swapped[1] else (k, n))]
    if draw.chance(0.7):
        shapes: list[tuple[int, ...]] = [(m, n), (n,), (1, n), (m, 1), ()]
        inputs.append(draw.array(draw.pick(shapes)))
        attributes["beta"] = draw.pick([0.5, 1.0])
    return NodeDraft(inputs, attributes, constant=frozenset({1, 2}))


def _fused_matmul(draw: Draw) -> NodeDraft:
    left, right = matrices(draw)
    attributes: dict[str, Any] = {}
    if draw.chance():
        attributes["alpha"] = draw.pick([0.5, 2.0, -1.0])
    if len(left) > 1 and draw.chance():
        left, attributes["transA"] = (*left[:-2], left[-1], left[-2]), 1
    if len(right) > 1 and draw.chance():
        right, attributes["transB"] = (*right[:-2], right[-1], right[-2]), 1
    dtype = draw.pick(["float32", "float32", "float64"])
    return NodeDraft([draw.array(left, dtype), draw.array(right, dtype)], attributes, constant=frozenset({1}))


def _integer_product(draw: Draw) -> NodeDraft:
    """Operands of 8 bits, or a float and one of 8 bits; the parameters of the second by column."""
    m, k, n = draw.rank(1, 9), draw.rank(1, 9), draw.rank(1, 9)
    batch = draw.pick([(), (2,), (2, 3)])
    dynamic = draw.version.name == "DynamicQuantizeMatMul"
    weights = draw.pick(_EIGHT_BITS)
    columns = (n,) if draw.chance() else ()
    b = draw.whole((k, n), weights)
    scale = scale_of(draw, columns)
    zero = zero_of(draw, weights, columns)
    bias = draw.array((n,))
    if dynamic:
        x = draw.array((*batch, m, k))
        return NodeDraft([x, b, scale, _given(draw, zero), _given(draw, bias)], constant=frozenset({1, 2, 3, 4}))
    first = draw.pick(_EIGHT_BITS)
    zeros = [_given(draw, zero_of(draw, first)), _given(draw, zero)]
    inputs = [draw.whole((*batch, m, k), first), b, scale_of(draw), scale, *zeros, _given(draw, bias)]
    return NodeDraft(inputs, constant=frozenset({1, 2, 3, 4, 5, 6}))


def _q_gemm(draw: Draw) -> NodeDraft:
    m, k, n = draw.rank(1, 9), draw.rank(1, 9), draw.rank(1, 9)
    dtype, swapped = draw.pick(_EIGHT_BITS), (draw.pick([0, 1]), draw.pick([0, 1]))
    weights = "int8" if dtype == "int8" else draw.pick(_EIGHT_BITS)
    columns = (n,) if draw.chance() else ()
    inputs: list[Array | None] = [
        draw.whole((k, m) if swapped[0] else (m, k), dtype), scale_of(draw), zero_of(draw, dtype)
    ]  # fmt: skip
    b = draw.whole((n, k) if swapped[1] else (k, n), weights)
    inputs += [b, scale_of(draw, columns), zero_of(draw, weights, columns)]
    inputs.append(_given(draw, draw.array(draw.pick([(n,), (1, n), (m, n)]), "int32", -500, 500)))
    if draw.chance(0.7):
        inputs += [scale_of(draw, (), 0.2, 1), zero_of(draw, dtype)]
    attributes = {"transA": swapped[0], "transB": swapped[1], "alpha": draw.pick([1.0, 0.5])}
    return NodeDraft(inputs, attributes, constant=frozenset(range(1, 9)))


def _dynamic_lstm(draw: Draw) -> NodeDraft:
    length, batch, inner, hidden = draw.rank(1, 4), draw.rank(1, 3), draw.rank(1, 5), draw.rank(1, 5)
    direction = draw.pick(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    weights = draw.pick(_EIGHT_BITS)
    parameters = (count, 4 * hidden) if draw.chance() else (count,)
    zeros = [zero_of(draw, weights, parameters, symmetric=True) for _ in range(2)]
    inputs: list[Array | None] = [
        draw.array((length, batch, inner), "float32", -1, 1),
        draw.whole((count, inner, 4 * hidden), weights),
        draw.whole((count, hidden, 4 * hidden), weights),
        _given(draw, draw.array((count, 8 * hidden), "float32", -1, 1)),
        None,
        _given(draw, draw.array((count, batch, hidden), "float32", -1, 1)),
        _given(draw, draw.array((count, batch, hidden), "float32", -1, 1)),
        None,
        scale_of(draw, parameters, 0.002, 0.01), zeros[0], scale_of(draw, parameters, 0.002, 0.01), zeros[1],
    ]  # fmt: skip
    attributes = {"hidden_size": hidden, "direction": direction}
    return NodeDraft(
        inputs, attributes, outputs=draw.rank(1, 3), constant=frozenset({1, 2, 3, 8, 9, 10, 11}), tolerance=0.02
    )  # ONNX Runtime rounds the data to 8 bits as well


# --- normalisations -------------------------------------------------------------------------------


def _skip_normalization(draw: Draw) -> NodeDraft:
    shape = (*draw.shape(draw.pick([1, 2, 2]), empty=False), draw.rank(1, 9))
    layer = draw.version.name == "SkipLayerNormalization"
    other = draw.pick([shape, shape, (1, *shape[1:]), shape[1:]]) if len(shape) == 3 else shape
    inputs: list[Array | None] = [draw.array(shape), draw.array(other), draw.array(shape[-1:])]
    if layer:
        inputs.append(_given(draw, draw.array(shape[-1:])))
    inputs.append(_given(draw, draw.array(shape[-1:])))
    attributes = {"epsilon": draw.pick([1e-5, 1e-2])} if draw.chance() else {}
    places = frozenset({2, 3, 4})
    if draw.chance():
        return NodeDraft(inputs, attributes, outputs=4, absent=frozenset({1, 2}), constant=places)
    return NodeDraft(inputs, attributes, constant=places)


def _embedding(draw: Draw) -> NodeDraft:
    batch, length, hidden = draw.rank(1, 3), draw.rank(1, 7), draw.rank(1, 9)
    ids = draw.array((batch, length), "int32", 0, 9)
    segments = draw.chance(0.7)
    inputs: list[Array | None] = [
        ids,
        draw.array((batch, length), "int32", 0, 1) if segments else None,
        draw.array((10, hidden)),
        draw.array((8, hidden)),
        draw.array((2, hidden)) if segments else None,
        draw.array((hidden,)),
        draw.array((hidden,)),
        _given(draw, np.asarray(np.arange(length) < draw.rank(1, length), np.int32) + np.zeros_like(ids)),
        _given(draw, draw.array((draw.pick([1, batch]), length), "int32", 0, 7), 0.3),
    ]
    absent = frozenset({1}) if draw.chance() else frozenset()
    outputs = draw.pick([2, 3])
    return NodeDraft(
        inputs,
        {"epsilon": draw.pick([1e-5, 1e-2])} if draw.chance() else {},
        outputs=outputs,
        absent=absent if outputs == 3 else frozenset(),
        constant=frozenset({2, 3, 4, 5, 6}),
    )


# --- attention ------------------------------------------------------------------------------------


_ROUNDED = 0.02  # of scores behind a mask of -10000, where a query attends no key


def _key_mask(draw: Draw, batch: int, queries: int, keys: int) -> Array:
    """Which keys are seen: the first ones of each batch, for all queries or each of them."""
    lengths = draw.random.integers(1, keys + 1, size=(batch, 1))
    mask = np.asarray(np.arange(keys) < lengths, np.int32)
    return np.repeat(mask[:, None], queries, 1) if queries else mask


def _key_limits(draw: Draw, batch: int, starts: bool) -> Array:
    """Ends of the keys of each batch; behind them starts, or offsets of packed sequences."""
    ends = draw.random.integers(1, 8, size=batch)
    if starts and draw.chance():
        return np.concatenate([ends, draw.random.integers(0, ends)]).astype(np.int32)
    offsets = np.arange(2 * batch + 2) if draw.chance(0.3) else np.arange(0)
    return np.concatenate([ends, offsets]).astype(np.int32)


def _any_mask(draw: Draw, batch: int, queries: int, keys: int, starts: bool = True) -> Array | None:
    """A mask of any form, or none."""
    if draw.chance(0.3):
        return None
    if draw.chance(0.4):
        return _key_limits(draw, batch, starts)
    return _key_mask(draw, batch, draw.pick([0, queries]), keys)


def _options(draw: Draw, **choices: list[Any]) -> dict[str, Any]:
    return {name: draw.pick(values) for name, values in choices.items() if draw.chance(0.4)}


def _attributes(draw: Draw, heads: int) -> dict[str, Any]:
    values = [-10000.0, -100.0, float(np.finfo(np.float32).min)]
    return {
        "num_heads": heads,
        **_options(draw, unidirectional=[0, 1], scale=[0.5, 1.0], mask_filter_value=values),
    }


def _attention(draw: Draw) -> NodeDraft:
    batch, length, inner = draw.rank(1, 2), draw.rank(1, 6), draw.rank(1, 9)
    heads, size = draw.rank(1, 3), draw.rank(1, 4)
    hidden = values = heads * size
    attributes = _attributes(draw, heads)
    present = draw.chance(0.4)
    past = present and draw.chance(0.7)
    steps = draw.rank(0, 3) if past else 0
    if draw.chance(0.3) and not present:
        values = heads * draw.rank(1, 4)
        attributes["qkv_hidden_sizes"] = [hidden, hidden, values]
    total = 2 * hidden + values
    inputs: list[Array | None] = [
        draw.array((batch, length, inner)),
        draw.array((inner, total)),
        draw.array((total,)),
        _any_mask(draw, batch, length, steps + length),
        draw.array((2, batch, heads, steps, size)) if past else None,
    ]
    if not past and draw.chance():
        inputs.append(draw.array((draw.pick([1, batch]), draw.pick([1, heads]), length, length)))
    return NodeDraft(inputs, attributes, 1 + present, constant=frozenset({1, 2}), tolerance=_ROUNDED)


def _q_attention(draw: Draw) -> NodeDraft:
    batch, length, inner = draw.rank(1, 2), draw.rank(1, 6), draw.rank(1, 9)
    heads, size = draw.rank(1, 3), 2 * draw.rank(1, 2)
    hidden, kind = heads * size, draw.pick(_EIGHT_BITS)
    present = draw.chance(0.4)
    past = present and draw.chance(0.7)
    steps = draw.rank(0, 3) if past else 0
    columns = draw.pick([(), (3 * hidden,)])
    inputs: list[Array | None] = [
        draw.whole((batch, length, inner), "uint8"),
        draw.whole((inner, 3 * hidden), kind),
        draw.array((3 * hidden,)),
        scale_of(draw),
        draw.array(columns, "float32", 0.001, 0.01),
        _any_mask(draw, batch, length, steps + length),
        zero_of(draw, "uint8"),
        np.zeros(columns, kind) if columns else zero_of(draw, kind),
        draw.array((2, batch, heads, steps, size)) if past else None,
    ]
    attributes = _attributes(draw, heads)
    return NodeDraft(inputs, attributes, 1 + present, constant=frozenset({1, 2, 3, 4, 6, 7}), tolerance=_ROUNDED)


def _multi_head(draw: Draw) -> NodeDraft:
    batch, queries, keys = draw.rank(1, 2), draw.rank(1, 6), draw.rank(1, 6)
    heads, size = draw.rank(1, 3), draw.rank(1, 4)
    present = draw.chance(0.5)
    past = present and draw.chance(0.7)
    steps, width = draw.rank(0, 3) if past else 0, size if past or draw.chance() else draw.rank(1, 4)
    apart = not past and draw.chance(0.2)  # heads of keys and values in a dimension of their own
    sizes = [(batch, heads, keys, size), (batch, heads, keys, width if not apart else size)]
    shapes = sizes if apart else [(a, c, b * d) for a, b, c, d in sizes]
    hidden, values = heads * size, heads * sizes[1][3]
    inputs: list[Array | None] = [draw.array(shape) for shape in [(batch, queries, hidden), *shapes]]
    inputs.append(_given(draw, draw.array((2 * hidden + values,))))
    total = steps + keys
    inputs.append(_any_mask(draw, batch, queries, total, starts=False))
    inputs.append(_given(draw, draw.array((draw.pick([1, batch]), draw.pick([1, heads]), queries, total)), 0.3))
    if past:
        inputs += [draw.array((batch, heads, steps, size)) for _ in range(2)]
    attributes = _attributes(draw, heads)
    return NodeDraft(inputs, attributes, 3 if present else 1, constant=frozenset({3}), tolerance=_ROUNDED)


FUSED: Mapping[str, Drafter] = {
    **dict.fromkeys(("BiasGelu", "FastGelu", "Gelu", "QuickGelu"), _activation),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), _integer_product),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_normalization),
    "Attention": _attention,
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "EmbedLayerNormalization": _embedding,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "MultiHeadAttention": _multi_head,
    "QAttention": _q_attention,
    "QGemm": _q_gemm,
}
"""Operators of ONNX Runtime's own domain, whose schemas the package `onnx` lacks."""
