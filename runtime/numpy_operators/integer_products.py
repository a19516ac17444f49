"""Sums of integer convolutions and matrix products in NumPy.

Activations and weights are int8; `x_zero_point` and its like are subtracted from the elements of x,
and padding is zero. Products are added in float64, which is exact.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from vdla.runtime.numpy_operators.integer_windows import windows_of
from vdla.runtime.numpy_operators.requantise import Int8, Int64, Ints, along_channels, centred


def conv_sums(
    x: Int8,
    weight: Int8,
    bias: npt.NDArray[np.int32],
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    group: int,
    x_zero_point: int,
) -> Int64:
    """x [N, C, ...], weight [CO, C / group, ...], bias [CO] -> [N, CO, ...]; padding is zero."""
    windows = windows_of(centred(x, x_zero_point), weight.shape[2:], strides, pads, dilations, 0)
    spatial = tuple(range(2, weight.ndim))
    count, channels, outputs = group, weight.shape[1], len(weight) // group
    parts = []
    for g in range(count):  # [N, C / group, windows..., taps...] times [CO / group, C / group, taps...]
        data = windows[:, g * channels : (g + 1) * channels].astype(np.float64)
        kernel = weight[g * outputs : (g + 1) * outputs].astype(np.float64)
        taps = tuple(range(weight.ndim, data.ndim))
        parts.append(np.moveaxis(np.tensordot(data, kernel, ((1, *taps), (1, *spatial))), -1, 1))
    return np.asarray(np.concatenate(parts, axis=1).astype(np.int64) + along_channels(bias, x.ndim))


def conv_transpose_sums(
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
) -> Int64:
    """x [N, C, ...], weight [C, CO / group, ...], bias [CO] -> [N, CO, ...]."""
    data, rank = centred(x, x_zero_point).astype(np.float64), x.ndim - 2
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
    return np.asarray(total[(slice(None), slice(None), *inner)].astype(np.int64) + along_channels(bias, x.ndim))


def dense_sums(
    x: Int8,
    weight: Int8,
    bias: npt.NDArray[np.int32],
    *,
    x_zero_point: int,
) -> Int64:
    """x [..., K] times the transpose of weight [N, K], plus bias [N]."""
    products = centred(x, x_zero_point).astype(np.float64) @ weight.T.astype(np.float64)
    return np.asarray(products.astype(np.int64) + bias)


def matmul_sums(
    a: Int8,
    b: Int8,
    *,
    a_zero_point: int,
    b_zero_point: int,
) -> Int64:
    """a [..., M, K] times b [..., K, N]; batches broadcast."""
    left, right = centred(a, a_zero_point), centred(b, b_zero_point)
    return np.asarray((left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64))
