# SPDX-License-Identifier: Apache-2.0
"""Drafts of quantised operators: those of ONNX, and those that ONNX Runtime's quantisers write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter
from vdla.verification.grids.networks import image_shape, matrices, window

_EIGHT_BITS = ("int8", "uint8")
_SHORT = ("int8", "uint8", "int16", "uint16", "int4", "uint4")


def scale_of(draw: Draw, shape: tuple[int, ...] = (), low: float = 0.01, high: float = 0.1) -> Array:
    """Positive scales."""
    return draw.array(shape, "float32", low, high)


def zero_of(draw: Draw, dtype: str, shape: tuple[int, ...] = (), symmetric: bool = False) -> Array:
    """Zero points; those of symmetric int8 are 0."""
    if symmetric:
        return np.full(shape, 0 if dtype == "int8" else 128).astype(dtype)
    low, high = (-20, 20) if dtype == "int8" else (100, 150)
    return np.asarray(draw.random.integers(low, high, size=shape)).astype(dtype)


def _parameters(draw: Draw, x: Array, dtype: str) -> tuple[list[Array | None], dict[str, Any]]:
    """The scale and zero point of a tensor, a channel or a block, and their attributes."""
    axis = draw.axis(x.ndim) if x.ndim else 0
    attributes: dict[str, Any] = {}
    shape: tuple[int, ...] = ()
    if x.ndim and draw.has("axis") and draw.chance(0.6):
        shape, attributes = (x.shape[axis],), {"axis": axis}
        if draw.has("block_size") and draw.chance(0.6):
            block = draw.pick([item for item in (1, 2, 3, 4) if x.shape[axis] % item == 0] or [1])
            blocked = list(x.shape)
            blocked[axis] = x.shape[axis] // block
            shape, attributes = tuple(blocked), {"axis": axis, "block_size": block}
    made: list[Array | None] = [scale_of(draw, shape, 0.02, 0.6)]
    if draw.chance(0.7):
        zero = draw.array(shape, dtype, 0, 3) if dtype != "int32" else np.zeros(shape, np.int32)
        made.append(zero)
    return made, attributes


def _quantize(draw: Draw) -> NodeDraft:
    low = 1 if draw.chance() else 0
    x = draw.array(draw.shape(draw.rank(low, 4)), "float32", -40, 40)
    names = draw.dtypes("T3" if draw.version.since >= 23 else "T2")
    dtype = draw.pick([name for name in names if name in _SHORT])
    parameters, attributes = _parameters(draw, x, dtype)
    if len(parameters) == 1 and dtype != "uint8":
        if draw.has("output_dtype") and draw.chance():
            attributes["output_dtype"] = _code(dtype)
        else:
            assert parameters[0] is not None
            parameters.append(draw.array(parameters[0].shape, dtype, 0, 3))
    return NodeDraft([x, *parameters], attributes, constant=frozenset({1, 2}))


def _dequantize(draw: Draw) -> NodeDraft:
    low = 1 if draw.chance() else 0
    names = draw.dtypes("T1" if draw.version.since >= 19 else "T")
    dtype = draw.pick([name for name in names if name in (*_SHORT, "int32")])
    x = draw.array(draw.shape(draw.rank(low, 4)), dtype, -100, 100)
    parameters, attributes = _parameters(draw, x, dtype)
    return NodeDraft([x, *parameters], attributes, constant=frozenset({0, 1, 2} if draw.chance() else {1, 2}))


def _code(dtype: str) -> int:
    from onnx import TensorProto

    return int(getattr(TensorProto, dtype.upper()))


def _dynamic(draw: Draw) -> NodeDraft:
    return NodeDraft(
        [draw.array(draw.shape(empty=False), "float32", draw.pick([-3, 0.5, -9]), draw.pick([5, 0.75]))], outputs=3
    )


def _qlinear_conv(draw: Draw) -> NodeDraft:
    dtype, sides = draw.pick(_EIGHT_BITS), draw.pick([1, 2, 2, 2])
    weights = "int8" if dtype == "int8" else draw.pick(_EIGHT_BITS)
    kernel = [draw.pick([1, 2, 3]) for _ in range(sides)]
    group, inner, outer = draw.pick([(1, 3, 4), (1, 16, 16), (2, 4, 6), (4, 4, 4)])
    channels = (outer,) if draw.chance() else ()
    x = draw.whole(image_shape(draw, inner, kernel), dtype)
    w = draw.whole((outer, inner // group, *kernel), weights)
    weight_zero = zero_of(draw, weights, channels, draw.chance() or bool(channels))
    inputs = [x, scale_of(draw), zero_of(draw, dtype), w, scale_of(draw, channels), weight_zero]
    inputs += [scale_of(draw, (), 1, 4), zero_of(draw, dtype)]
    if draw.chance():
        inputs.append(draw.array((outer,), "int32", -500, 500))
    attributes = {**window(draw, kernel), "group": group}
    return NodeDraft(inputs, attributes, constant=frozenset(range(1, 9)))


def _conv_integer(draw: Draw) -> NodeDraft:
    dtype, kernel = draw.pick(_EIGHT_BITS), [draw.pick([1, 2, 3]) for _ in range(draw.pick([1, 2, 2]))]
    weights = "int8" if dtype == "int8" else draw.pick(_EIGHT_BITS)
    x, w = draw.whole(image_shape(draw, 4, kernel), dtype), draw.whole((6, 4, *kernel), weights)
    zeros = [zero_of(draw, dtype) if draw.chance() else None, zero_of(draw, weights) if draw.chance() else None]
    return NodeDraft([x, w, *zeros], window(draw, kernel), constant=frozenset({1, 2, 3}))


def _matmul_integer(draw: Draw) -> NodeDraft:
    first, second = draw.pick(_EIGHT_BITS), draw.pick(_EIGHT_BITS)
    left, right = matrices(draw)
    zeros = [zero_of(draw, first) if draw.chance() else None, zero_of(draw, second) if draw.chance() else None]
    return NodeDraft([draw.whole(left, first), draw.whole(right, second), *zeros], constant=frozenset({1, 2, 3}))


def _qlinear_matmul(draw: Draw) -> NodeDraft:
    dtype = draw.pick(_EIGHT_BITS)
    weights = "int8" if dtype == "int8" else draw.pick(_EIGHT_BITS)
    left, right = matrices(draw)
    columns = (right[-1],) if len(right) == 2 and len(left) == 2 and draw.chance() else ()
    zero = zero_of(draw, weights, columns, draw.chance())
    inputs = [draw.whole(left, dtype), scale_of(draw), zero_of(draw, dtype)]
    inputs += [draw.whole(right, weights), scale_of(draw, columns), zero]
    return NodeDraft([*inputs, scale_of(draw, (), 1, 4), zero_of(draw, dtype)], constant=frozenset(range(1, 8)))


# --- com.microsoft --------------------------------------------------------------------------------


def _affine(draw: Draw, dtype: str) -> list[Array | None]:
    return [scale_of(draw), zero_of(draw, dtype)]


def _of_one(draw: Draw) -> NodeDraft:
    dtype = draw.pick(_EIGHT_BITS)
    x = draw.whole(draw.shape(draw.rank(1, 4), empty=False), dtype)
    attributes = {"alpha": draw.pick([0.01, 0.2])} if draw.version.name == "QLinearLeakyRelu" else {}
    return NodeDraft([x, *_affine(draw, dtype), *_affine(draw, dtype)], attributes, constant=frozenset(range(1, 5)))


def _of_two(draw: Draw) -> NodeDraft:
    dtype, shape = draw.pick(_EIGHT_BITS), draw.shape(draw.rank(1, 4), empty=False)
    other = shape if draw.chance() else (shape[-1],)
    operands = [draw.whole(shape, dtype), *_affine(draw, dtype), draw.whole(other, dtype), *_affine(draw, dtype)]
    return NodeDraft([*operands, *_affine(draw, dtype)], constant=frozenset({1, 2, 4, 5, 6, 7}))


def _q_softmax(draw: Draw) -> NodeDraft:
    dtype, rank = draw.pick(_EIGHT_BITS), draw.rank(1, 4)
    shape = draw.shape(rank)
    x = draw.whole(shape, dtype) if draw.chance(0.7) else draw.array(shape, dtype, 0, 3)
    scale, made = draw.pick([1e-4, 0.02, 0.1, 1.0, 5.0]), draw.pick([1 / 256, 1 / 255, 0.003, 0.01, 0.3, 1.5])
    zero = np.asarray(draw.pick([-128, -3, 0] if dtype == "int8" else [0, 4]), dtype)
    inputs: list[Array | None] = [x, np.asarray(scale, np.float32), zero, np.asarray(made, np.float32), zero]
    attributes = {"axis": draw.rank(-rank, rank - 1), "opset": draw.pick([11, 13])}
    return NodeDraft(inputs, attributes, constant=frozenset(range(1, 5)))


def _q_concat(draw: Draw) -> NodeDraft:
    dtype, rank = draw.pick(_EIGHT_BITS), draw.rank(1, 4)
    shape, axis = draw.shape(rank, empty=False), draw.axis(rank, negative=False)
    inputs = _affine(draw, dtype)
    for _ in range(draw.rank(1, 3)):
        inputs += [draw.whole(shape, dtype), *_affine(draw, dtype)]
    places = frozenset(place for place in range(len(inputs)) if place < 2 or place % 3 != 2)
    return NodeDraft(inputs, {"axis": axis}, constant=places)


def _q_pool(draw: Draw) -> NodeDraft:
    dtype, kernel = draw.pick(_EIGHT_BITS), [draw.pick([2, 3]), draw.pick([1, 2])]
    x = draw.whole(image_shape(draw, 4, kernel), dtype)
    attributes: dict[str, Any] = {}
    if draw.version.name == "QLinearAveragePool":
        attributes = {
            "kernel_shape": kernel,
            "strides": draw.pick([[1, 1], [2, 2]]),
            "count_include_pad": draw.pick([0, 1]),
        }
    return NodeDraft([x, *_affine(draw, dtype), *_affine(draw, dtype)], attributes, constant=frozenset(range(1, 5)))


def _matmul_n_bits(draw: Draw) -> NodeDraft:
    rows, blocks, block = draw.rank(1, 9), draw.rank(1, 3), draw.pick([16, 32])
    depth = blocks * block - draw.pick([0, 0, 3])
    packed = draw.whole((rows, blocks, block // 2), "uint8")
    scales = draw.array((rows * blocks,) if draw.chance() else (rows, blocks), "float32", 0.01, 0.1)
    inputs = [draw.array((draw.rank(1, 4), depth)), packed, scales]
    if draw.chance():
        inputs.append(draw.whole((rows * ((blocks + 1) // 2),), "uint8"))
    attributes = {"K": depth, "N": rows, "bits": 4, "block_size": block}
    return NodeDraft(inputs, attributes, constant=frozenset({1, 2, 3}))


def _short_quantize(draw: Draw) -> NodeDraft:
    dtype = draw.pick(_SHORT)
    x = draw.array(draw.shape(draw.rank(1, 4), empty=False), "float32", -40, 40)
    return NodeDraft([x, scale_of(draw), draw.array((), dtype, 0, 3)], constant=frozenset({1, 2}))


def _short_dequantize(draw: Draw) -> NodeDraft:
    dtype = draw.pick(_SHORT)
    x = draw.array(draw.shape(draw.rank(1, 4), empty=False), dtype, -100, 100)
    return NodeDraft(
        [x, scale_of(draw), draw.array((), dtype, 0, 3)], constant=frozenset({0, 1, 2} if draw.chance() else {1, 2})
    )


QUANTISED: Mapping[str, Drafter] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
MICROSOFT: Mapping[str, Drafter] = {
    "DequantizeLinear": _short_dequantize,
    "MatMulNBits": _matmul_n_bits,
    "QLinearAdd": _of_two,
    "QLinearAveragePool": _q_pool,
    "QLinearConcat": _q_concat,
    "QLinearGlobalAveragePool": _q_pool,
    "QLinearLeakyRelu": _of_one,
    "QLinearMul": _of_two,
    "QLinearSigmoid": _of_one,
    "QLinearSoftmax": _q_softmax,
    "QuantizeLinear": _short_quantize,
}
"""Operators of ONNX Runtime's own domain, whose schemas the package `onnx` lacks."""
