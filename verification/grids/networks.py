# SPDX-License-Identifier: Apache-2.0
"""Drafts of the operators of networks: convolutions, pools, products, normalisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vdla.verification.grids.draw import FLOATS, Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

_FEW_FLOATS = ("float32", "float32", "float64", "float16")


def window(draw: Draw, kernel: Sequence[int], explicit: bool = False) -> dict[str, Any]:
    """Strides, dilations and pads, or a rule for pads."""
    sides = len(kernel)
    made: dict[str, Any] = draw.options(
        strides=[[1] * sides, [2] * sides, [2, 1, 3][:sides]], dilations=[[1] * sides, [2] * sides, [1, 2, 1][:sides]]
    )
    if not explicit and draw.chance(0.25):
        return {**made, "auto_pad": draw.pick(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])}
    if draw.chance(0.7):
        made["pads"] = [draw.rank(0, max(0, (extent - 1) // 2)) for extent in (*kernel, *kernel)]
    return made


def image_shape(draw: Draw, channels: int, kernel: Sequence[int]) -> tuple[int, ...]:
    """The shape of an image that holds a dilated kernel."""
    batch = 0 if draw.chance(0.02) else draw.rank(1, 2)
    return (batch, channels, *(2 * extent + draw.rank(0, 5) for extent in kernel))


def _conv(draw: Draw) -> NodeDraft:
    dtype, sides = draw.dtype(among=_FEW_FLOATS), draw.rank(1, 3)
    kernel = [draw.pick([1, 2, 3]) for _ in range(sides)]
    group, inner, outer = draw.pick([(1, 3, 4), (1, 1, 1), (2, 4, 6), (3, 3, 3), (4, 4, 8)])
    x = draw.array(image_shape(draw, inner, kernel), dtype)
    shape = (
        (inner, outer // group, *kernel) if draw.version.name == "ConvTranspose" else (outer, inner // group, *kernel)
    )
    inputs: list[Array | None] = [x, draw.array(shape, dtype)]
    if draw.chance():
        inputs.append(draw.array((outer,), dtype) if draw.chance(0.8) else None)
    attributes = {**window(draw, kernel), **draw.options(kernel_shape=[kernel])}
    if group > 1 or draw.chance():
        attributes["group"] = group
    if draw.version.name == "ConvTranspose" and "strides" in attributes and draw.chance(0.4):
        attributes["output_padding"] = [max(0, stride - 1) for stride in attributes["strides"]]
    return NodeDraft(inputs, attributes, constant=frozenset({1, 2}))


def _pool(draw: Draw) -> NodeDraft:
    sides = draw.rank(1, 3)
    kernel = [draw.pick([1, 2, 3]) for _ in range(sides)]
    x = draw.array(image_shape(draw, draw.rank(1, 4), kernel), draw.dtype(among=(*FLOATS, "int8", "uint8")))
    options = draw.options(ceil_mode=[0, 1], count_include_pad=[0, 1], p=[1, 2, 3], storage_order=[0])
    outputs = draw.rank(1, 2) if draw.version.name == "MaxPool" and draw.has("storage_order") else 1
    return NodeDraft([x], {"kernel_shape": kernel, **window(draw, kernel), **options}, outputs=outputs)


def _global_pool(draw: Draw) -> NodeDraft:
    shape = (draw.rank(1, 2), draw.rank(1, 4), *draw.shape(draw.rank(1, 3), empty=False))
    return NodeDraft([draw.array(shape, draw.dtype(among=_FEW_FLOATS))], draw.options(p=[1, 2, 3]))


def matrices(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of two factors, vectors and broadcast batches among them."""
    m, k, n = draw.extent(empty=True), draw.extent(), draw.extent(empty=True)
    match draw.rank(0, 6):
        case 0:
            return (k,), (k, n)
        case 1:
            return (m, k), (k,)
        case 2:
            return (2, m, k), (k, n)
        case 3:
            return (2, 1, m, k), (3, k, n)
        case 4:
            return (3, m, k), (3, k, n)
        case _:
            return (m, k), (k, n)


def _matmul(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=(*FLOATS, "int32", "int64", "uint32"))
    left, right = matrices(draw)
    return NodeDraft([draw.array(left, dtype), draw.array(right, dtype)], constant=frozenset({1}))


def _gemm(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=_FEW_FLOATS)
    m, k, n = draw.extent(empty=True), draw.extent(), draw.extent()
    options = draw.options(transA=[0, 1], transB=[0, 1], alpha=[0.5, 1.0, 2.0], beta=[0.0, 0.5, 1.0])
    left = draw.array((k, m) if options.get("transA") else (m, k), dtype)
    right = draw.array((n, k) if options.get("transB") else (k, n), dtype)
    old = draw.has("broadcast")
    shapes: list[tuple[int, ...]] = [(m, n), (n,), (1, n), (m, 1), (1,), ()]
    shape = draw.pick(shapes)
    if old:
        options |= {"broadcast": 1}
    inputs: list[Array | None] = [left, right]
    if draw.version.since < 11 or draw.chance(0.7):
        inputs.append(draw.array(shape, dtype))
    return NodeDraft(inputs, options, constant=frozenset({1, 2}))


_EQUATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("...ij->...ji", ((2, 3, 4),)),
    ("bhqd,bhkd->bhqk", ((1, 2, 3, 4), (1, 2, 5, 4))),
    ("bij,bjk", ((2, 3, 4), (2, 4, 5))),
    ("i,j->ij", ((3,), (4,))),
    ("ii->i", ((4, 4),)),
    ("ij->", ((3, 5),)),
    ("ij,jk->ik", ((3, 4), (4, 5))),
)


def _einsum(draw: Draw) -> NodeDraft:
    equation, shapes = draw.pick(_EQUATIONS)
    dtype = draw.dtype(among=("float32", "float64"))
    return NodeDraft([draw.array(shape, dtype) for shape in shapes], {"equation": equation})


def _reduce(draw: Draw) -> NodeDraft:
    rank = draw.rank(0)
    dtype = draw.dtype(among=(*FLOATS, "int32", "int64", "int8", "uint8", "bool"))
    low = 0.1 if "Log" in draw.version.name else -3
    inputs: list[Array | None] = [draw.array(draw.shape(rank), dtype, low, 3)]
    options = draw.options(keepdims=[0, 1])
    if rank and draw.chance(0.7):
        options |= draw.either("axes", draw.axes(rank), inputs)
    elif not draw.has("axes") and draw.chance():
        inputs.append(np.zeros(0, np.int64))
    return NodeDraft(inputs, {**options, **draw.options(noop_with_empty_axes=[0, 1])}, constant=frozenset({1}))


def _arg_reduce(draw: Draw) -> NodeDraft:
    rank = draw.rank()
    x = draw.array(draw.shape(rank, empty=False), draw.dtype(among=("float32", "int32", "float64")), -3, 3)
    return NodeDraft(
        [np.rint(x).astype(x.dtype)],
        {"axis": draw.axis(rank), **draw.options(keepdims=[0, 1], select_last_index=[0, 1])},
    )


def _cumulative(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 4)
    x = draw.array(draw.shape(rank), draw.dtype(among=("float32", "float64", "int32", "int64")), -3, 3)
    axis = np.asarray(draw.axis(rank), draw.pick([np.int32, np.int64]))
    return NodeDraft([x, axis], draw.options(exclusive=[0, 1], reverse=[0, 1]), constant=frozenset({1}))


def _channels(draw: Draw, count: int, dtype: str) -> list[Array | None]:
    return [draw.array((count,), dtype) for _ in range(2)]


def _batch_norm(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=_FEW_FLOATS)
    shape = draw.shape(draw.rank(2, 5))
    stats = [draw.array((shape[1],), dtype), draw.array((shape[1],), dtype, 0.5, 2)]
    options = draw.options(epsilon=[1e-3, 1e-5], momentum=[0.5], is_test=[1], spatial=[1])
    options |= draw.known(is_test=1)
    inputs = [draw.array(shape, dtype), *_channels(draw, shape[1], dtype), *stats]
    return NodeDraft(inputs, options, constant=frozenset({1, 2, 3, 4}))


def _instance_norm(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=_FEW_FLOATS)
    shape = (draw.rank(1, 2), draw.rank(1, 4), *draw.shape(draw.rank(1, 3), empty=False))
    return NodeDraft([draw.array(shape, dtype), *_channels(draw, shape[1], dtype)], draw.options(epsilon=[1e-2, 1e-5]))


def _group_norm(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=_FEW_FLOATS)
    groups, item = draw.rank(1, 3), draw.rank(1, 3)
    shape = (draw.rank(1, 2), groups * item, *draw.shape(draw.rank(1, 3), empty=False))
    count = groups if draw.version.since < 21 else groups * item
    inputs = [draw.array(shape, dtype), *_channels(draw, count, dtype)]
    return NodeDraft(inputs, {"num_groups": groups, **draw.options(epsilon=[1e-2])})


def _layer_norm(draw: Draw) -> NodeDraft:
    dtype, rank = draw.dtype(among=("float32", "float16")), draw.rank(1, 4)
    shape, axis = draw.shape(rank, empty=False), draw.axis(rank)
    parameters = [draw.array(shape[axis:], dtype) for _ in range(1 if "RMS" in draw.version.name else draw.rank(1, 2))]
    options = draw.options(epsilon=[1e-2, 1e-5])
    if axis not in (-1,) or draw.chance():
        options["axis"] = axis
    return NodeDraft([draw.array(shape, dtype), *parameters], options)


def _lrn(draw: Draw) -> NodeDraft:
    x = draw.array(draw.shape(draw.rank(3, 4), empty=False), draw.dtype(among=_FEW_FLOATS))
    return NodeDraft([x], {"size": draw.pick([1, 3, 5]), **draw.options(alpha=[0.1], beta=[0.5], bias=[2.0])})


def _lp_norm(draw: Draw) -> NodeDraft:
    rank = draw.rank()
    x = draw.array(draw.shape(rank, empty=False), draw.dtype(among=("float32", "float64")))
    return NodeDraft([x], {"axis": int(draw.random.integers(rank)), **draw.options(p=[1, 2])})


def _mean_variance(draw: Draw) -> NodeDraft:
    x = draw.array(draw.shape(4, empty=False), draw.dtype(among=("float32",)))
    return NodeDraft([x], draw.options(axes=[[0, 2, 3], [2, 3], [1, 2, 3]]))


def _resize(draw: Draw) -> NodeDraft:
    rank = draw.pick([2, 3, 4, 4, 5])
    shape = draw.shape(rank, empty=False)
    scales = [1.0, 1.0, *(draw.pick([0.5, 1.0, 1.5, 2.0]) for _ in range(rank - 2))] if rank > 2 else [1.5, 2.0]
    scales = [max(scale, 1 / extent) for scale, extent in zip(scales, shape, strict=True)]
    x = draw.array(shape, draw.dtype("T1" if draw.takes(3) else "T", among=("float32", "float32", "uint8", "int8")))
    mode = {"mode": draw.pick(["nearest", "linear" if rank < 5 else "nearest"])}
    factors = np.asarray(scales, np.float32)
    if draw.has("scales"):
        return NodeDraft([x], {**mode, "scales": [max(1.0, scale) for scale in scales]})
    if not draw.takes(3):
        whole = np.maximum(factors, 1) if draw.version.name == "Upsample" else factors
        return NodeDraft([x, whole.astype(np.float32)], mode, constant=frozenset({1}))
    transform = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    if draw.version.since < 19:
        transform.pop()
    roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
    if mode["mode"] == "linear" and rank == 4 and draw.chance(0.3):
        mode = {"mode": "cubic"}
    options = {**mode, **draw.options(coordinate_transformation_mode=transform, nearest_mode=roundings, antialias=[0])}
    if draw.chance(0.4):
        sizes = np.asarray([max(1, int(extent * scale)) for extent, scale in zip(shape, scales, strict=True)], np.int64)
        return NodeDraft([x, None, None, sizes], options, constant=frozenset({1, 2, 3}))
    roi = np.zeros(0, np.float32) if draw.chance() or draw.version.since < 13 else None
    return NodeDraft([x, roi, factors], options, constant=frozenset({1, 2}))


def _recurrent(draw: Draw) -> NodeDraft:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[draw.version.name]
    length, batch, inner, hidden = draw.rank(1, 4), draw.rank(1, 3), draw.rank(1, 5), draw.rank(1, 5)
    direction = draw.pick(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    shapes = [(length, batch, inner), (count, gates * hidden, inner), (count, gates * hidden, hidden)]
    inputs: list[Array | None] = [draw.array(shape, "float32", -1, 1) for shape in shapes]
    inputs.append(draw.array((count, 2 * gates * hidden), "float32", -1, 1) if draw.chance() else None)
    lengths = np.asarray(draw.random.integers(1, length + 1, size=batch), np.int32)
    inputs.append(lengths if draw.chance(0.3) else None)
    inputs.append(draw.array((count, batch, hidden), "float32", -1, 1) if draw.chance() else None)
    if gates == 4:
        inputs.append(draw.array((count, batch, hidden), "float32", -1, 1) if draw.chance() else None)
        inputs.append(draw.array((count, 3 * hidden), "float32", -1, 1) if draw.chance(0.3) else None)
    options = draw.options(linear_before_reset=[0, 1], clip=[0.5], input_forget=[0])
    return NodeDraft(
        inputs,
        {"hidden_size": hidden, "direction": direction, **options},
        outputs=draw.rank(1, 3 if gates == 4 else 2),
        constant=frozenset({1, 2, 3}),
    )


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
NETWORKS: Mapping[str, Drafter] = {
    **{f"Reduce{name}": _reduce for name in _REDUCTIONS},
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg_reduce),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    **dict.fromkeys(("Conv", "ConvTranspose"), _conv),
    **dict.fromkeys(("CumProd", "CumSum"), _cumulative),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), _global_pool),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_norm),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "BatchNormalization": _batch_norm,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "LpNormalization": _lp_norm,
    "MatMul": _matmul,
    "MeanVarianceNormalization": _mean_variance,
}
