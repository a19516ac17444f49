# SPDX-License-Identifier: Apache-2.0
"""Reductions along any axes of a tensor.

`axes` is None (all dimensions), an integer or a sequence; negative axes count from the end. An
empty sequence reduces nothing: the result is the element-wise part of the reduction (`sum_square`
squares), as ONNX's `noop_with_empty_axes` asks. With `keepdims` a reduced dimension stays with
extent 1. A tensor has at least one dimension, so reducing all of them without `keepdims` gives the
shape (1,). float16 and bfloat16 are summed in float32; integers wrap in their own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from vdla.compiler import te
from vdla.compiler.ir import SMALL_FLOATS, limits
from vdla.compiler.operators.checks import axes_of, axis_of, check_float, check_number, extent_value
from vdla.compiler.operators.elementwise import elementwise, magnitude
from vdla.compiler.operators.results import result_name, to_accumulator

Axes = int | Sequence[int] | None
Body = Callable[[te.Value], te.Value]
_product = te.reducer(lambda x, y: x * y, 1, "product")


# --- building blocks ------------------------------------------------------------------------------


def reduce_with(
    reducer: te.Reducer, x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str, body: Body = lambda v: v
) -> te.Tensor:
    """`body` of the elements of `x`, reduced along `axes` (ascending)."""
    if not axes:
        return elementwise(x, body, name)
    reduced = [te.reduce_axis(x.shape[d], f"r{d}") for d in axes]
    rank = len(x.shape)

    def value(*i: te.Value) -> te.Value:
        return reducer(body(x[_source_indices(rank, axes, keepdims, i, reduced)]), axis=reduced)

    return te.compute(_reduced_shape(x.shape, axes, keepdims), value, name)


def element_count(x: te.Tensor, axes: Sequence[int], dtype: str) -> te.Value:
    """The number of elements along `axes`, in a float dtype."""
    count = te.const(1, dtype)
    for d in axes:
        count = count * te.cast(dtype, extent_value(x.shape[d]))
    return count


def _reduced_shape(shape: Sequence[te.Dim], axes: Sequence[int], keepdims: bool) -> tuple[te.Dim, ...]:
    """The shape of the result; at least one dimension."""
    if keepdims:
        return tuple(1 if d in axes else extent for d, extent in enumerate(shape))
    return tuple(extent for d, extent in enumerate(shape) if d not in axes) or (1,)


def _source_indices(
    rank: int, axes: Sequence[int], keepdims: bool, i: Sequence[te.Value], reduced: Sequence[te.Operand]
) -> tuple[te.Operand, ...]:
    """The indices of the operand: `reduced` along `axes`, and those of the result elsewhere."""
    inner = dict(zip(axes, reduced, strict=True))
    outer = iter(i)
    if keepdims:
        return tuple(inner.get(d, index) for d, index in enumerate(outer))
    return tuple(inner[d] if d in inner else next(outer) for d in range(rank))


def _sum_with(x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str, body: Body = lambda v: v) -> te.Tensor:
    """The sum of `body` of the elements along `axes`, in the accumulator dtype, rounded once."""
    if x.dtype not in SMALL_FLOATS:
        return reduce_with(te.sum, x, axes, keepdims, name, body)
    return _function_of_sum(x, axes, keepdims, name, lambda v: v, body)


def _function_of_sum(
    x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str, function: Body, body: Body = lambda v: v
) -> te.Tensor:
    """`function` of the sum of `body` of the elements, rounded to the dtype of `x` at the end."""
    total = reduce_with(te.sum, x, axes, keepdims, f"{name}_sum", lambda v: body(to_accumulator(v)))
    return elementwise(total, lambda v: te.cast(x.dtype, function(v)), name)


class ReductionOperator(Protocol):
    """A reduction along axes, which may name its result."""

    def __call__(self, x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
        """The reduction of `x`."""


def _reduction(
    operator: str,
    reduce: Callable[[te.Tensor, tuple[int, ...], bool, str], te.Tensor],
    formula: str,
    check: Callable[[str, str, te.Tensor], None] = check_number,
) -> ReductionOperator:
    """The operator that reduces by a function; `formula` is its docstring."""

    def apply(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
        check(operator, "x", x)
        return reduce(x, axes_of(operator, len(x.shape), axes), keepdims, result_name(x, operator, name))

    apply.__name__, apply.__doc__ = operator, formula
    return apply


def _mean(x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str) -> te.Tensor:
    return _function_of_sum(x, axes, keepdims, name, lambda v: v / element_count(x, axes, v.dtype))


# --- one pass -------------------------------------------------------------------------------------


sum = _reduction("sum", _sum_with, "The sum.")
prod = _reduction("prod", partial(reduce_with, _product), "The product.")
max = _reduction("max", partial(reduce_with, te.max), "The largest element; NaN if any element is NaN.")
min = _reduction("min", partial(reduce_with, te.min), "The smallest element; NaN if any element is NaN.")
sum_square = _reduction("sum_square", partial(_sum_with, body=lambda v: v * v), "The sum of squares.")
l1_norm = _reduction("l1_norm", partial(_sum_with, body=magnitude), "The sum of absolute values.")


# --- several passes -------------------------------------------------------------------------------


mean = _reduction("mean", _mean, "The arithmetic mean; floats only.", check_float)
l2_norm = _reduction(
    "l2_norm",
    partial(_function_of_sum, function=te.sqrt, body=lambda v: v * v),
    "The square root of the sum of squares; floats only.",
    check_float,
)
log_sum = _reduction(
    "log_sum", partial(_function_of_sum, function=te.log), "The logarithm of the sum; floats only.", check_float
)


def logsumexp(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """log(sum(exp(x))) without overflow: the maximum is subtracted first; floats only."""
    check_float("logsumexp", "x", x)
    reduced, result = axes_of("logsumexp", len(x.shape), axes), result_name(x, "logsumexp", name)
    maximum = reduce_with(te.max, x, reduced, True, f"{result}_max")

    def exponential(*i: te.Value) -> te.Value:
        return te.exp(to_accumulator(x[i]) - to_accumulator(_finite_maximum(maximum, reduced, i)))

    total = _sum_with(te.compute(x.shape, exponential, f"{result}_exp"), reduced, keepdims, f"{result}_sum")

    def value(*i: te.Value) -> te.Value:
        zeros = [te.const(0, "int32") for _ in reduced]
        indices = _source_indices(len(x.shape), reduced, keepdims, i, zeros)
        return te.cast(x.dtype, te.log(total[i]) + to_accumulator(_finite_maximum(maximum, reduced, indices)))

    return te.compute(total.shape, value, result)


def _finite_maximum(maximum: te.Tensor, axes: Sequence[int], i: Sequence[te.Operand]) -> te.Value:
    """The maximum of the group of element `i`; 0 if infinite, as inf - inf would be NaN."""
    value = maximum[tuple(te.const(0, "int32") if d in axes else index for d, index in enumerate(i))]
    low, high = limits(maximum.dtype)
    return te.select((value == low) | (value == high), te.const(0, maximum.dtype), value)


# --- positions ------------------------------------------------------------------------------------


def argmax(
    x: te.Tensor, axis: int = 0, keepdims: bool = False, select_last_index: bool = False, name: str | None = None
) -> te.Tensor:
    """The int64 index of the largest element along `axis`; of equal ones the first or last."""
    return _arg_reduction("argmax", te.argmax, x, axis, keepdims, select_last_index, name)


def argmin(
    x: te.Tensor, axis: int = 0, keepdims: bool = False, select_last_index: bool = False, name: str | None = None
) -> te.Tensor:
    """The int64 index of the smallest element along `axis`; of equal ones the first or last."""
    return _arg_reduction("argmin", te.argmin, x, axis, keepdims, select_last_index, name)


_ArgReducer = Callable[[te.Value, te.ReduceAxis], tuple[te.Value, te.Value]]


def _arg_reduction(
    operator: str, reducer: _ArgReducer, x: te.Tensor, axis: int, keepdims: bool, select_last: bool, name: str | None
) -> te.Tensor:
    """The index that `reducer` finds; `select_last` walks the axis backwards."""
    check_number(operator, "x", x)
    dimension = axis_of(operator, len(x.shape), axis)
    result = result_name(x, operator, name)
    k, end = te.reduce_axis(x.shape[dimension], "k"), extent_value(x.shape[dimension]) - 1
    place = end - k if select_last else k

    def value(*i: te.Value) -> tuple[te.Value, te.Value]:
        return reducer(x[_source_indices(len(x.shape), (dimension,), keepdims, i, (place,))], k)

    shape = _reduced_shape(x.shape, (dimension,), keepdims)
    index = te.compute(shape, value, (f"{result}_value", f"{result}_place"))[1]
    return elementwise(index, lambda v: te.cast("int64", end - v if select_last else v), result)
