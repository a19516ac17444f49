# SPDX-License-Identifier: Apache-2.0
"""The integer operators of quantised networks in NumPy: the one definition of their arithmetic.

Operators are functions of a node's inputs and of its attributes by their names; those called
`..._sums` leave out the requantisation, which is alike for all (`requantise.py`). An element-wise
operator takes uint8 as well, int8 numbers plus 128 under the same attributes; its result is then
uint8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.factors import UNIT_SLOPE
from vdla.hardware.fixed_point import EXTRA_BITS, scale_fixed_point
from vdla.hardware.numerics import wrap32
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.integer_attention import INTEGER_ATTENTION
from vdla.runtime.numpy_operators.integer_normalise import qnormalise
from vdla.runtime.numpy_operators.integer_products import conv_sums, conv_transpose_sums, dense_sums, matmul_sums
from vdla.runtime.numpy_operators.integer_rows import factor, rotary, row_norm, row_softmax
from vdla.runtime.numpy_operators.integer_softmax import qsoftmax
from vdla.runtime.numpy_operators.requantise import (
    NO_FIXED_POINT,
    Int8,
    Int64,
    Ints,
    centred,
    fixed_point_result,
    requantised,
)
from vdla.runtime.numpy_operators.windows import max_pool_sums, pack_patches, qaverage_pool


def add_sums(
    a: Int8,
    b: Int8,
    *,
    factors: Ints,
    a_zero_point: int,
    b_zero_point: int,
) -> Int64:
    """The sum of the elements times one integer factor each; shapes broadcast."""
    return factors[0] * centred(a, a_zero_point) + factors[1] * centred(b, b_zero_point)


def qadd(
    a: Int8,
    b: Int8,
    *,
    fixed_point: Int64 = NO_FIXED_POINT,
    factors: Ints,
    **attributes: Any,  # noqa: ANN401  of nodes
) -> Int8:
    """The sum of the elements; of TensorFlow Lite, of rescaled operands of 20 more bits."""
    if not fixed_point.size:
        return requantised(add_sums)(a, b, factors=factors, **attributes)
    wide = [centred(x, attributes[key]) << EXTRA_BITS for x, key in ((a, "a_zero_point"), (b, "b_zero_point"))]
    first, second = (scale_fixed_point(x, *fixed_point[:, i]) for i, x in enumerate(wide))
    total = first + (-second if factors[1] < 0 else second)
    bounds = {name: attributes[name] for name in ("y_zero_point", "low", "high")}
    return fixed_point_result(scale_fixed_point(total, *fixed_point[:, 2]), **bounds)


def mul_sums(
    a: Int8,
    b: Int8,
    *,
    a_zero_point: int,
    b_zero_point: int,
) -> Int64:
    """The product of the elements; shapes broadcast."""
    return centred(a, a_zero_point) * centred(b, b_zero_point)


def rescale_sums(x: Int8, *, x_zero_point: int) -> Int64:
    """x itself; the requantisation gives it another scale."""
    return centred(x, x_zero_point)


def leaky_relu_sums(
    x: Int8,
    *,
    factors: Ints,
    x_zero_point: int,
) -> Int64:
    """The larger of x times the one and x times the other integer factor."""
    data = centred(x, x_zero_point)
    return np.maximum(factors[0] * data, factors[1] * data)


def prelu_sums(x: Int8, slope: npt.NDArray[np.int16], *, x_zero_point: int) -> Int64:
    """x times 128, or below zero times its slope, of which 1 is 128; slopes broadcast to x."""
    data = centred(x, x_zero_point)
    return np.asarray(np.maximum(data, 0) * UNIT_SLOPE + np.minimum(data, 0) * slope, np.int64)


def qtable(x: Int8, *, table: Int8) -> Int8:
    """`table[x + 128]`."""
    return np.asarray(table[x.astype(np.int64) + 128])


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


def qsquares(x: Int8, *, x_zero_point: int, keepdims: int) -> npt.NDArray[np.int32]:
    """The sum of the squares of each row of the last dimension, without the zero point."""
    distances = centred(x, x_zero_point)
    return np.asarray((distances * distances).sum(axis=-1, keepdims=bool(keepdims)), np.int32)


def qdistances(x: Int8, others: Int8) -> npt.NDArray[np.int32]:
    """[..., M]: the sums of absolute differences of rows [..., K] from those of [M, K]."""
    far = x.astype(np.int32)[..., None, :] - others.astype(np.int32)
    return np.asarray(np.abs(far).sum(axis=-1), np.int32)


def to_int8(x: npt.NDArray[np.uint8]) -> Int8:
    """x - 128."""
    return np.asarray((x ^ np.uint8(0x80)).view(np.int8))


def to_uint8(x: Int8) -> npt.NDArray[np.uint8]:
    """x + 128."""
    return np.asarray(x.view(np.uint8) ^ np.uint8(0x80))


def _signed(x: Array) -> Int8:
    """The int8 numbers that an activation stands for."""
    return to_int8(x) if x.dtype == np.uint8 else x


def _function(compute: Callable[..., Array]) -> Function:
    return lambda attributes, *inputs: (compute(*inputs, **attributes),)


def _of_image(compute: Callable[..., Int8]) -> Function:
    """The function of an operator whose first input may be uint8; its result is int8."""
    return lambda attributes, x, *operands: (compute(_signed(x), *operands, **attributes),)


def _elementwise(compute: Callable[..., Int8]) -> Function:
    """The function of an operator whose result is uint8 if an input is."""

    def function(attributes: Attributes, *inputs: Array) -> tuple[Array]:
        unsigned = any(x.dtype == np.uint8 for x in inputs)
        result = compute(*map(_signed, inputs), **attributes)
        return (to_uint8(result) if unsigned else result,)

    return function


_COMPUTE: Mapping[str, Callable[..., Array]] = {
    "vdla.ColumnLanes": column_lanes,
    "vdla.PackPatches": pack_patches,
    "vdla.QDense": requantised(dense_sums),
    "vdla.QMatMul": requantised(matmul_sums),
    "vdla.QNormalise": qnormalise,
    "vdla.QFactor": factor,
    "vdla.QRotary": rotary,
    "vdla.QRowNorm": row_norm,
    "vdla.QRowSoftmax": row_softmax,
    "vdla.QSoftmax": qsoftmax,
    "vdla.QDistances": qdistances,
    "vdla.QSquares": qsquares,
    "vdla.RowTerms": row_terms,
    "vdla.ToInt8": to_int8,
    "vdla.ToUint8": to_uint8,
}
_IMAGES: Mapping[str, Callable[..., Int8]] = {
    "vdla.QAveragePool": qaverage_pool,
    "vdla.QConv": requantised(conv_sums, by_channel=True),
    "vdla.QConvTranspose": requantised(conv_transpose_sums, by_channel=True),
    "vdla.QMaxPool": requantised(max_pool_sums),
}
_ELEMENTWISE: Mapping[str, Callable[..., Int8]] = {
    "vdla.QAdd": qadd,
    "vdla.QMul": requantised(mul_sums),
    "vdla.QRescale": requantised(rescale_sums),
    "vdla.QLeakyRelu": requantised(leaky_relu_sums),
    "vdla.QPRelu": requantised(prelu_sums),
    "vdla.QTable": qtable,
}
INTEGER: Mapping[str, Function] = {
    **{op: _function(compute) for op, compute in _COMPUTE.items()},
    **{op: _of_image(compute) for op, compute in _IMAGES.items()},
    **{op: _elementwise(compute) for op, compute in _ELEMENTWISE.items()},
    **INTEGER_ATTENTION,
}
