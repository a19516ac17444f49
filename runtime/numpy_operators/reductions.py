# SPDX-License-Identifier: Apache-2.0
"""Reductions, positions of extremes, cumulative sums, products. Short floats sum in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import in_float32, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function

_Reduction = Callable[..., Any]


def _of(function: _Reduction) -> Function:
    """A reduction over the axes of the second input."""

    def reduce(attributes: Attributes, x: Array, axes: Array | None = None) -> Array:
        named = None if axes is None or not axes.size else tuple(map(int, axes.reshape(-1)))
        if named is None and attributes.get("noop_with_empty_axes", 0):
            named = ()
        result = function(x, axis=named, keepdims=bool(attributes.get("keepdims", 1)))
        return np.asarray(result)

    def operator(attributes: Attributes, x: Array, axes: Array | None = None) -> tuple[Array]:
        return (reduce(attributes, widened(x), axes).astype(x.dtype, copy=False),)

    return operator


def _sum(x: Array, **options: Any) -> Any:  # noqa: ANN401  the options and the result of np.sum
    return np.sum(x, dtype=x.dtype, **options)


def _mean(x: Array, **options: Any) -> Any:  # noqa: ANN401  as of _sum
    """The mean; of no elements 0, as in ONNX Runtime."""
    return np.mean(x, **options) if x.size else _sum(x, **options)


def log_sum_exp(x: Array, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: ANN401
    """log(sum(exp(x))) without overflow."""
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return total if keepdims else np.squeeze(total, axis)


def _extreme(function: _Reduction, of_floats: float, is_lowest: bool) -> _Reduction:
    """The largest or smallest element; of no elements the limit of the type."""

    def reduce(x: Array, **options: Any) -> Any:  # noqa: ANN401
        if x.dtype.kind == "f":
            return function(x, initial=of_floats, **options)
        if x.dtype.kind == "b":
            return function(x, initial=is_lowest, **options)
        limits = np.iinfo(x.dtype)
        return function(x, initial=limits.max if is_lowest else limits.min, **options)

    return reduce


def _position(function: Callable[..., Any]) -> Function:
    """The index of an extreme; of equal ones the first, or the last."""

    def operator(attributes: Attributes, x: Array) -> tuple[Array]:
        axis, wide = attributes.get("axis", 0), widened(x)
        lines = [extent for d, extent in enumerate(x.shape) if d != axis % x.ndim]
        if 0 in lines:  # NumPy refuses lines without elements, even if there are no lines
            wide = np.zeros([extent or int(d == axis % x.ndim) for d, extent in enumerate(x.shape)])
        if attributes.get("select_last_index", 0):
            place = wide.shape[axis] - 1 - function(np.flip(wide, axis), axis)
        else:
            place = function(wide, axis)
        kept = np.expand_dims(place, axis) if attributes.get("keepdims", 1) else place
        return (np.asarray(kept, np.int64),)

    return operator


def _cumulative(function: Callable[..., Any], start: int) -> Function:
    """Running totals along an axis, with the element or before it, from either end."""

    def total(attributes: Attributes, x: Array, axis: Array) -> Array:
        along = int(axis.reshape(-1)[0])
        backwards = bool(attributes.get("reverse", 0))
        line = np.flip(x, along) if backwards else x
        result = function(line, along, dtype=x.dtype)
        if attributes.get("exclusive", 0):
            before = np.full_like(result, start)
            places: Any = (*(slice(None),) * (along % x.ndim), slice(1, None))
            before[places] = result.take(range(result.shape[along] - 1), along)
            result = before
        return np.asarray(np.flip(result, along) if backwards else result)

    return in_float32(total)


REDUCTIONS: Mapping[str, Function] = {
    "ArgMax": _position(np.argmax),
    "ArgMin": _position(np.argmin),
    "CumProd": _cumulative(np.cumprod, 1),
    "CumSum": _cumulative(np.cumsum, 0),
    "ReduceL1": _of(lambda x, **options: _sum(np.abs(x), **options)),
    "ReduceL2": _of(lambda x, **options: np.sqrt(_sum(x * x, **options))),
    "ReduceLogSum": _of(lambda x, **options: np.log(_sum(x, **options))),
    "ReduceLogSumExp": _of(log_sum_exp),
    "ReduceMax": _of(_extreme(np.max, -np.inf, False)),
    "ReduceMean": _of(_mean),
    "ReduceMin": _of(_extreme(np.min, np.inf, True)),
    "ReduceProd": _of(lambda x, **options: np.prod(x, dtype=x.dtype, **options)),
    "ReduceSum": _of(_sum),
    "ReduceSumSquare": _of(lambda x, **options: _sum(x * x, **options)),
}


# --- matrix products ------------------------------------------------------------------------------


def _gemm(attributes: Attributes, a: Array, b: Array, c: Array | None = None) -> Array:
    left = a.T if attributes.get("transA", 0) else a
    right = b.T if attributes.get("transB", 0) else b
    total = left @ right
    if (alpha := attributes.get("alpha", 1.0)) != 1:
        total = total * alpha
    if c is not None and (beta := attributes.get("beta", 1.0)):
        total = total + (c if beta == 1 else c * beta)
    return total


def _einsum(attributes: Attributes, *arrays: Array) -> tuple[Array]:
    equation = attributes["equation"].replace(" ", "")
    return (np.asarray(np.einsum(equation, *map(widened, arrays))).astype(arrays[0].dtype, copy=False),)


def _matmul_integer(
    attributes: Attributes, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> tuple[Array]:
    """Zero points are scalars, or one for each row of A and column of B."""
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        left = left - (a_zero.astype(np.int32)[..., None] if a_zero.ndim == 1 and a_zero.size > 1 else a_zero)
    if b_zero is not None:
        right = right - b_zero.astype(np.int32)
    return (np.matmul(left, right, dtype=np.int32),)


PRODUCTS: Mapping[str, Function] = {
    "Det": in_float32(lambda attributes, x: np.linalg.det(x)),
    "Einsum": _einsum,
    "Gemm": in_float32(_gemm),
    "MatMul": in_float32(lambda attributes, a, b: np.matmul(a, b)),
    "MatMulInteger": _matmul_integer,
}
