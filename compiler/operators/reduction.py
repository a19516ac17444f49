"""Reductions along some axes of a tensor.

`axes` is None (all dimensions), an integer or several, negative ones counted from the end; with `keepdims` a reduced
dimension stays with extent 1. A tensor has at least one dimension, so the reduction of all of them without `keepdims`
has the shape (1,). Elements of float16 and bfloat16 are summed in float32; integers wrap in their own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler import te
from vdla.compiler.ir import SMALL_FLOATS, limits
from vdla.compiler.operators.accumulation import wide
from vdla.compiler.operators.checks import OperatorError, as_element, axes_of, axis_of, check_float, check_number
from vdla.compiler.operators.elementwise import elementwise, magnitude
from vdla.compiler.operators.naming import name_of

Axes = int | Sequence[int] | None
Body = Callable[[te.Value], te.Value]
product = te.reducer(lambda x, y: x * y, 1, "product")


def reduced_shape(shape: Sequence[te.Dim], axes: Sequence[int], keepdims: bool) -> tuple[te.Dim, ...]:
    """The shape of the result; at least one dimension."""
    if keepdims:
        return tuple(1 if d in axes else extent for d, extent in enumerate(shape))
    return tuple(extent for d, extent in enumerate(shape) if d not in axes) or (1,)


def source_indices(
    rank: int, axes: Sequence[int], keepdims: bool, at: Sequence[te.Value], along: Sequence[te.Operand]
) -> tuple[te.Operand, ...]:
    """The indices of the element that contributes to the result at `at`, `along` being the reduced ones."""
    inner = dict(zip(axes, along, strict=True))
    outer = iter(at)
    if keepdims:
        return tuple(inner.get(d, index) for d, index in enumerate(outer))
    return tuple(inner[d] if d in inner else next(outer) for d in range(rank))


def reduce_with(
    reducer: te.Reducer, x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str, body: Body = lambda v: v
) -> te.Tensor:
    """`body` of the elements of `x`, combined along `axes` (ascending)."""
    along = [te.reduce_axis(x.shape[d], f"r{d}") for d in axes]
    rank = len(x.shape)

    def value(*at: te.Value) -> te.Value:
        return reducer(body(x[source_indices(rank, axes, keepdims, at, along)]), axis=along)

    return te.compute(reduced_shape(x.shape, axes, keepdims), value, name)


def summed(x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str, body: Body = lambda v: v) -> te.Tensor:
    """The sum of `body` of the elements along `axes`; narrow floats are added in float32 and rounded once."""
    if x.dtype not in SMALL_FLOATS:
        return reduce_with(te.sum, x, axes, keepdims, name, body)
    return of_sum(x, axes, keepdims, name, lambda v: v, body)


def of_sum(
    x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str, finish: Body, body: Body = lambda v: v
) -> te.Tensor:
    """`finish` of the sum, which for narrow floats is one of float32, rounded after it."""
    total = reduce_with(te.sum, x, axes, keepdims, f"{name}_sum", lambda v: body(wide(v)))
    return elementwise(total, lambda v: te.cast(x.dtype, finish(v)), name)


def prepared(operator: str, x: te.Tensor, axes: Axes, name: str | None) -> tuple[tuple[int, ...], str]:
    """The axes in ascending order, and the result's name."""
    check_number(operator, "x", x)
    chosen = axes_of(operator, len(x.shape), axes)
    if not chosen:
        raise OperatorError(f"{operator}: axes must name at least one dimension, got none")
    return chosen, name_of(x, operator, name)


# --- one pass --------------------------------------------------------------------------------------------------------


def sum(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The sum."""
    chosen, result = prepared("sum", x, axes, name)
    return summed(x, chosen, keepdims, result)


def prod(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The product."""
    chosen, result = prepared("prod", x, axes, name)
    return reduce_with(product, x, chosen, keepdims, result)


def max(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The largest element; NaN if there is one."""
    chosen, result = prepared("max", x, axes, name)
    return reduce_with(te.max, x, chosen, keepdims, result)


def min(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The smallest element; NaN if there is one."""
    chosen, result = prepared("min", x, axes, name)
    return reduce_with(te.min, x, chosen, keepdims, result)


def sum_square(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The sum of the squares."""
    chosen, result = prepared("sum_square", x, axes, name)
    return summed(x, chosen, keepdims, result, lambda v: v * v)


def l1_norm(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The sum of the magnitudes."""
    chosen, result = prepared("l1_norm", x, axes, name)
    return summed(x, chosen, keepdims, result, magnitude)


# --- several passes --------------------------------------------------------------------------------------------------


def mean(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The sum divided by the number of elements; floats only."""
    check_float("mean", "x", x)
    chosen, result = prepared("mean", x, axes, name)
    return of_sum(x, chosen, keepdims, result, lambda v: v / count_of(x, chosen, v.dtype))


def l2_norm(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The square root of the sum of the squares; floats only."""
    check_float("l2_norm", "x", x)
    chosen, result = prepared("l2_norm", x, axes, name)
    return of_sum(x, chosen, keepdims, result, te.sqrt, lambda v: v * v)


def log_sum(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """The logarithm of the sum; floats only."""
    check_float("log_sum", "x", x)
    chosen, result = prepared("log_sum", x, axes, name)
    return of_sum(x, chosen, keepdims, result, te.log)


def logsumexp(x: te.Tensor, axes: Axes = None, keepdims: bool = False, name: str | None = None) -> te.Tensor:
    """log(sum(exp(x))), the largest element taken out first, so that no power overflows; floats only."""
    check_float("logsumexp", "x", x)
    chosen, result = prepared("logsumexp", x, axes, name)
    largest = reduce_with(te.max, x, chosen, True, f"{result}_max")

    def power(*i: te.Value) -> te.Value:
        return te.exp(wide(x[i]) - wide(finite(largest, chosen, i)))

    total = summed(te.compute(x.shape, power, f"{result}_exp"), chosen, keepdims, f"{result}_sum")

    def value(*at: te.Value) -> te.Value:
        zeros = [te.const(0, "int32") for _ in chosen]
        there = source_indices(len(x.shape), chosen, keepdims, at, zeros)
        return te.cast(x.dtype, te.log(total[at]) + wide(finite(largest, chosen, there)))

    return te.compute(total.shape, value, result)


def finite(largest: te.Tensor, axes: Sequence[int], at: Sequence[te.Operand]) -> te.Value:
    """The maximum that belongs to the element at `at`; 0 for an infinite one, as inf - inf would be NaN."""
    here = largest[tuple(te.const(0, "int32") if d in axes else i for d, i in enumerate(at))]
    low, high = limits(largest.dtype)
    return te.select((here == low) | (here == high), te.const(0, largest.dtype), here)


def count_of(x: te.Tensor, axes: Sequence[int], dtype: str) -> te.Value:
    """The number of elements along `axes`, as a float."""
    count = te.const(1, dtype)
    for d in axes:
        count = count * te.cast(dtype, as_element(x.shape[d]))
    return count


# --- positions -------------------------------------------------------------------------------------------------------


def argmax(
    x: te.Tensor, axis: int = 0, keepdims: bool = False, last: bool = False, name: str | None = None
) -> te.Tensor:
    """The position of the largest element along `axis`, int64; of equal ones the first, or with `last` the last."""
    return position("argmax", te.argmax, x, axis, keepdims, last, name)


def argmin(
    x: te.Tensor, axis: int = 0, keepdims: bool = False, last: bool = False, name: str | None = None
) -> te.Tensor:
    """The position of the smallest element along `axis`, int64; of equal ones the first, or with `last` the last."""
    return position("argmin", te.argmin, x, axis, keepdims, last, name)


Best = Callable[[te.Value, te.ReduceAxis], tuple[te.Value, te.Value]]


def position(
    operator: str, best: Best, x: te.Tensor, axis: int, keepdims: bool, last: bool, name: str | None
) -> te.Tensor:
    """The position that `best` finds; `last` reads backwards."""
    check_number(operator, "x", x)
    along = axis_of(operator, len(x.shape), axis)
    result = name_of(x, operator, name)
    k, end = te.reduce_axis(x.shape[along], "k"), as_element(x.shape[along]) - 1
    place = end - k if last else k

    def value(*at: te.Value) -> tuple[te.Value, te.Value]:
        return best(x[source_indices(len(x.shape), (along,), keepdims, at, (place,))], k)

    shape = reduced_shape(x.shape, (along,), keepdims)
    found = te.compute(shape, value, (f"{result}_value", f"{result}_place"))[1]
    return elementwise(found, lambda v: te.cast("int64", end - v if last else v), result)
