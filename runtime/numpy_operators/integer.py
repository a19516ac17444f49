"""The integer operators of quantised networks in NumPy: the one definition of their arithmetic.

A sum is int32 and wraps. A requantisation is `clip(round(sum * multiplier / 2**shift) + zero_point,
low, high)`, half to even; multipliers and shifts have one entry, or one a channel. Activations and
weights are int8, and `x_zero_point` and its like are subtracted from the elements of x.

Each function takes the inputs of a node and its attributes by their names. An element-wise operator
takes uint8 as well, int8 numbers plus 128 under the same attributes; its result is then uint8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from vdla.hardware.numerics import round_half_even, scales_from_floats, wrap32
from vdla.runtime.numpy_operators.function import Array, Attributes, Function

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]
Ints = Sequence[int]


def requantise(sums: Int64, multiplier: Array, shift: Array, zero_point: int, low: int, high: int) -> Int8:
    """Sums as int8; multipliers and shifts broadcast to the sums."""
    products = wrap32(sums).astype(np.int64) * multiplier
    return np.asarray(np.clip(round_half_even(products, shift) + zero_point, low, high), np.int8)


# --- products -------------------------------------------------------------------------------------


def qconv(
    x: Int8,
    weight: Int8,
    bias: npt.NDArray[np.int32],
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    group: int,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """x [N, C, ...], weight [CO, C / group, ...], bias [CO] -> [N, CO, ...]; padding is zero."""
    windows = _windows(_centred(x, x_zero_point), weight.shape[2:], strides, pads, dilations, 0)
    spatial = tuple(range(2, weight.ndim))
    count, channels, outputs = group, weight.shape[1], len(weight) // group
    parts = []
    for g in range(count):  # [N, C / group, windows..., taps...] times [CO / group, C / group, taps...]
        data = windows[:, g * channels : (g + 1) * channels].astype(np.float64)
        kernel = weight[g * outputs : (g + 1) * outputs].astype(np.float64)
        taps = tuple(range(weight.ndim, data.ndim))
        parts.append(np.moveaxis(np.tensordot(data, kernel, ((1, *taps), (1, *spatial))), -1, 1))
    sums = np.concatenate(parts, axis=1).astype(np.int64) + _channels(bias, x.ndim)
    return requantise(sums, _channels(multiplier, x.ndim), _channels(shift, x.ndim), y_zero_point, low, high)


def qconv_transpose(
    x: Int8,
    weight: Int8,
    bias: npt.NDArray[np.int32],
    *,
    strides: Ints,
    pads: Ints,
    output_padding: Ints,
    dilations: Ints,
    group: int,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """x [N, C, ...], weight [C, CO / group, ...], bias [CO] -> [N, CO, ...]."""
    data, rank = _centred(x, x_zero_point).astype(np.float64), x.ndim - 2
    kernel, channels, outputs = weight.shape[2:], len(weight) // group, weight.shape[1]
    by_tap = np.moveaxis(weight.astype(np.float64), (0, 1), (-2, -1))  # [taps..., C, CO / group]
    full = [(x.shape[2 + d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 for d in range(rank)]
    room = [extent + output_padding[d] for d, extent in enumerate(full)]
    total = np.zeros((x.shape[0], outputs * group, *room))
    for g in range(group):
        own = slice(g * channels, (g + 1) * channels)
        for tap in product(*map(range, kernel)):
            terms = np.moveaxis(np.tensordot(data[:, own], by_tap[tap][own], ((1,), (0,))), -1, 1)
            first = [tap[d] * dilations[d] for d in range(rank)]
            places = [slice(at, at + (n - 1) * s + 1, s) for at, n, s in zip(first, x.shape[2:], strides, strict=True)]
            total[(slice(None), slice(g * outputs, (g + 1) * outputs), *places)] += terms
    inner = [slice(pads[d], room[d] - pads[rank + d]) for d in range(rank)]
    sums = total[(slice(None), slice(None), *inner)].astype(np.int64) + _channels(bias, x.ndim)
    return requantise(sums, _channels(multiplier, x.ndim), _channels(shift, x.ndim), y_zero_point, low, high)


def qdense(
    x: Int8,
    weight: Int8,
    bias: npt.NDArray[np.int32],
    *,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """x [..., K] times the transpose of weight [N, K], plus bias [N]."""
    sums = (_centred(x, x_zero_point).astype(np.float64) @ weight.T.astype(np.float64)).astype(np.int64) + bias
    return requantise(sums, multiplier, shift, y_zero_point, low, high)


def qmatmul(
    a: Int8,
    b: Int8,
    *,
    a_zero_point: int,
    b_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """a [..., M, K] times b [..., K, N]; batches broadcast."""
    left, right = _centred(a, a_zero_point), _centred(b, b_zero_point)
    sums = (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    return requantise(sums, multiplier, shift, y_zero_point, low, high)


# --- element by element ---------------------------------------------------------------------------


def qadd(
    a: Int8,
    b: Int8,
    *,
    factors: Ints,
    a_zero_point: int,
    b_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """The sum of the elements times one integer factor each; shapes broadcast."""
    sums = factors[0] * _centred(a, a_zero_point) + factors[1] * _centred(b, b_zero_point)
    return requantise(sums, multiplier, shift, y_zero_point, low, high)


def qmul(
    a: Int8,
    b: Int8,
    *,
    a_zero_point: int,
    b_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """The product of the elements; shapes broadcast."""
    sums = _centred(a, a_zero_point) * _centred(b, b_zero_point)
    return requantise(sums, multiplier, shift, y_zero_point, low, high)


def qrescale(
    x: Int8, *, x_zero_point: int, multiplier: Array, shift: Array, y_zero_point: int, low: int, high: int
) -> Int8:
    """x in another scale."""
    return requantise(_centred(x, x_zero_point), multiplier, shift, y_zero_point, low, high)


def qleaky_relu(
    x: Int8,
    *,
    factors: Ints,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """The larger of x times the one and x times the other integer factor."""
    centred = _centred(x, x_zero_point)
    sums = np.maximum(factors[0] * centred, factors[1] * centred)
    return requantise(sums, multiplier, shift, y_zero_point, low, high)


def qtable(x: Int8, *, table: Int8) -> Int8:
    """`table[x + 128]`."""
    return np.asarray(table[x.astype(np.int64) + 128])


def pack_patches(
    x: Int8,
    *,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    padding: int,
    block: int,
    batch: int,
) -> Int8:
    """[N, C, H, W] to [N / batch, KH * KW * C / block, OH, OW, batch, block]: windows as channels.

    C is innermost; zeros fill the last blocks.
    """
    windows = _windows(x, kernel_shape, strides, pads, dilations, padding)  # [N, C, OH, OW, KH, KW]
    count, _, rows, columns, *_ = windows.shape
    channels = windows.transpose(0, 4, 5, 1, 2, 3).reshape(count, -1, rows, columns)
    whole = np.pad(channels, [(0, -count % batch), (0, -channels.shape[1] % block), (0, 0), (0, 0)])
    blocks = whole.reshape(-1, batch, whole.shape[1] // block, block, rows, columns)
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 5, 1, 3))


def row_terms(x: Int8, *, factor: int, count: int) -> Int8:
    """[..., K] to [..., K + count + 1]: `factor` times the sum of each row, as more elements.

    It is 127 times the sum of the first `count` of them, plus the last one.
    """
    total = factor * x.astype(np.int64).sum(axis=-1, keepdims=True)
    units = total // 127
    shares = (units + np.arange(count)) // max(count, 1)
    return np.concatenate([x, shares, total - 127 * units], axis=-1, dtype=np.int8, casting="unsafe")


def column_lanes(x: Int8, *, factor: int, offset: int, lane: int) -> Int64:
    """[..., K, N] to [..., N]: `lane` with `factor` times the sum plus `offset` as bias."""
    biases = wrap32(factor * x.astype(np.int64).sum(axis=-2) + offset).astype(np.int64)
    return np.asarray(biases & 0xFFFF_FFFF | lane)


def to_int8(x: npt.NDArray[np.uint8]) -> Int8:
    """x - 128."""
    return np.asarray((x ^ np.uint8(0x80)).view(np.int8))


def to_uint8(x: Int8) -> npt.NDArray[np.uint8]:
    """x + 128."""
    return np.asarray(x.view(np.uint8) ^ np.uint8(0x80))


# --- pools ----------------------------------------------------------------------------------------


def qmax_pool(
    x: Int8,
    *,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """The largest element of each window of [N, C, ...], requantised."""
    windows = _windows(x.astype(np.int64), kernel_shape, strides, pads, dilations, -128)
    largest = windows.max(axis=tuple(range(x.ndim, windows.ndim)))
    return requantise(largest - x_zero_point, multiplier, shift, y_zero_point, low, high)


def qaverage_pool(
    x: Int8,
    *,
    kernel_shape: Ints,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    count_include_pad: int,
    x_zero_point: int,
    multiplier: Array,
    shift: Array,
    y_zero_point: int,
    low: int,
    high: int,
) -> Int8:
    """The sum of each window of [N, C, ...], requantised by the multiplier over the count.

    The quotient is that nearest to multiplier / 2**shift / count with 24 significant bits.
    """
    sums = _window_sums(_centred(x, x_zero_point), kernel_shape, strides, pads, dilations)
    inside = np.ones((1, 1, *x.shape[2:]), np.int64)
    counts = _window_sums(inside, kernel_shape, strides, pads, dilations)
    if count_include_pad:
        counts = np.full_like(counts, np.prod(kernel_shape))
    quotients = scales_from_floats(np.ldexp(multiplier.astype(np.float64), -shift) / np.maximum(counts, 1))
    return requantise(sums, *quotients, y_zero_point, low, high)


def _window_sums(x: Int64, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints) -> Int64:
    windows = _windows(x, kernel, strides, pads, dilations, 0)
    return np.asarray(windows.sum(axis=tuple(range(x.ndim, windows.ndim))), np.int64)


# --- parts ----------------------------------------------------------------------------------------


def _centred(x: Int8, zero_point: int) -> Int64:
    return np.asarray(x.astype(np.int64) - zero_point)


def _channels(values: Array, rank: int) -> Int64:
    """A vector along dimension 1 of a tensor."""
    return np.asarray(values.astype(np.int64).reshape(-1, *(1,) * (rank - 2)))


def _windows(x: Array, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, padding: int) -> Array:
    """[N, C, windows..., taps...] of x [N, C, ...]."""
    rank = x.ndim - 2
    sides = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    spans = tuple((taps - 1) * gap + 1 for taps, gap in zip(kernel, dilations, strict=True))
    padded = np.pad(x, sides, constant_values=padding)
    every = sliding_window_view(padded, spans, tuple(range(2, 2 + rank)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in (*strides, *dilations)))
    return np.asarray(every[steps])


def signed(x: Array) -> Int8:
    """The int8 numbers that an activation stands for."""
    return to_int8(x) if x.dtype == np.uint8 else x


def as_dtype(x: Int8, dtype: np.dtype[Any]) -> Array:
    """int8 numbers as an activation of `dtype`."""
    return to_uint8(x) if dtype == np.uint8 else x


def _function(compute: Callable[..., Array]) -> Function:
    return lambda attributes, *inputs: (compute(*inputs, **attributes),)


def _elementwise(compute: Callable[..., Int8]) -> Function:
    """The function of an operator whose result is uint8 if an input is."""

    def function(attributes: Attributes, *inputs: Array) -> tuple[Array]:
        unsigned = any(x.dtype == np.uint8 for x in inputs)
        result = compute(*map(signed, inputs), **attributes)
        return (to_uint8(result) if unsigned else result,)

    return function


_COMPUTE: Mapping[str, Callable[..., Array]] = {
    "vdla.ColumnLanes": column_lanes,
    "vdla.PackPatches": pack_patches,
    "vdla.QConv": qconv,
    "vdla.QConvTranspose": qconv_transpose,
    "vdla.QDense": qdense,
    "vdla.QMatMul": qmatmul,
    "vdla.QMaxPool": qmax_pool,
    "vdla.QAveragePool": qaverage_pool,
    "vdla.RowTerms": row_terms,
    "vdla.ToInt8": to_int8,
    "vdla.ToUint8": to_uint8,
}
_ELEMENTWISE: Mapping[str, Callable[..., Int8]] = {
    "vdla.QAdd": qadd,
    "vdla.QMul": qmul,
    "vdla.QRescale": qrescale,
    "vdla.QLeakyRelu": qleaky_relu,
    "vdla.QTable": qtable,
}
INTEGER: Mapping[str, Function] = {
    **{op: _function(compute) for op, compute in _COMPUTE.items()},
    **{op: _elementwise(compute) for op, compute in _ELEMENTWISE.items()},
}
