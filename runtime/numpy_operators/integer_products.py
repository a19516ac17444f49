# SPDX-License-Identifier: Apache-2.0
"""Sums of integer convolutions and matrix products in NumPy.

Activations and weights are int8; `x_zero_point` and its like are subtracted from the elements of x,
and padding is zero. Products are added in float64, which is exact.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from vdla.runtime.numpy_operators.convolutions import convolve_transposed
from vdla.runtime.numpy_operators.function import Array
from vdla.runtime.numpy_operators.requantise import Int8, Int64, Ints, along_channels, centred
from vdla.runtime.numpy_operators.windows import by_tap, pad_image
from vdla.support.window import window_of


def conv_sums(
    x: Int8, weight: Int8, bias: npt.NDArray[np.int32], *, group: int, x_zero_point: int, **attributes: Ints
) -> Int64:
    """x [N, C, ...], weight [CO, C / group, ...], bias [CO] -> [N, CO, ...]; padding is zero."""
    window = window_of(attributes, x.shape[2:], weight.shape[2:])
    image = pad_image(window, _exact(x, x_zero_point), 0)
    terms = np.stack(list(by_tap(window, image)), axis=2)  # [N, C, taps, places...]
    kernels = _exact(weight).reshape(group, len(weight) // group, -1)
    total = np.matmul(kernels, terms.reshape(len(x), group, kernels.shape[2], prod(window.places)))
    return _with_bias(total.reshape(len(x), len(weight), *window.places), bias)


def conv_transpose_sums(
    x: Int8, weight: Int8, bias: npt.NDArray[np.int32], *, x_zero_point: int, **attributes: int | Ints
) -> Int64:
    """x [N, C, ...], weight [C, CO / group, ...], bias [CO] -> [N, CO, ...]."""
    matrices = np.ascontiguousarray(np.moveaxis(_exact(weight), (0, 1), (-2, -1)))
    kernel = np.moveaxis(matrices, (-2, -1), (0, 1))
    return _with_bias(convolve_transposed(attributes, _exact(x, x_zero_point), kernel), bias)


def _exact(x: Int8, zero_point: int = 0) -> npt.NDArray[np.float64]:
    return centred(x, zero_point).astype(np.float64)


def _with_bias(total: Array, bias: npt.NDArray[np.int32]) -> Int64:
    return np.asarray(total.astype(np.int64) + along_channels(bias, total.ndim))


def dense_sums(
    x: Int8,
    weight: Int8,
    bias: npt.NDArray[np.int32],
    *,
    x_zero_point: int,
) -> Int64:
    """x [..., K] times the transpose of weight [N, K], plus bias [N]."""
    products = _exact(x, x_zero_point) @ _exact(weight.T)
    return np.asarray(products.astype(np.int64) + bias)


def matmul_sums(
    a: Int8,
    b: Int8,
    *,
    a_zero_point: int,
    b_zero_point: int,
) -> Int64:
    """a [..., M, K] times b [..., K, N]; batches broadcast."""
    return np.asarray((_exact(a, a_zero_point) @ _exact(b, b_zero_point)).astype(np.int64))
