"""Tensor expressions: what an operator computes, apart from how.

    a = te.placeholder((64, 32), "int8", "a")
    b = te.placeholder((16, 32), "int8", "b")
    k = te.reduce_axis(32, "k")
    c = te.compute((64, 16), lambda i, j: te.sum(te.cast("int32", a[i, k]) * te.cast("int32", b[j, k]), axis=k), "c")
    fn = te.create_function([a, b], [c], "matmul")

Both sides of an operator have one dtype, except that a Python number takes that of the other side; nothing is converted
silently. Integers wrap around. A reduction is the whole value of a `compute`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from vdla.compiler import ir
from vdla.compiler.dtypes import is_float, limits
from vdla.compiler.element import (
    Number,
    Operand,
    ReduceAxis,
    Reducer,
    Stage,
    TeError,
    Tensor,
    Value,
    as_value,
    axis_name,
    binary,
    check_dtype,
    check_extent,
    check_name,
    check_shape,
    const,
    divide,
    is_int,
    joined,
    result_of,
    same_dtype,
)
from vdla.compiler.stages import create_function

__all__ = [
    "Number", "Operand", "ReduceAxis", "Reducer", "TeError", "Tensor", "Value", "all_of", "binary", "call", "cast",
    "clip", "compute", "const", "create_function", "divide", "if_then_else", "max", "maximum", "min", "minimum", "pad",
    "placeholder", "reduce_axis", "reducer", "select", "sum",
]  # fmt: skip
MATH = ("exp", "log", "sqrt", "tanh")

# --- operations ------------------------------------------------------------------------------------------------------


def cast(dtype: str, value: Operand) -> Value:
    """`value` converted to `dtype`: integers wrap, floats to integers round towards zero."""
    check_dtype("te.cast", dtype)
    inner = as_value(value, "te.cast")
    return inner if inner.dtype == dtype else joined(ir.Cast(dtype, inner.expr), dtype, inner)


def select(condition: Operand, a: Operand, b: Operand) -> Value:
    """`a` where the condition holds, else `b`; the side that is not taken is not read, so it may be out of bounds."""
    test = as_value(condition, "te.select", "bool")
    if test.dtype != "bool":
        raise TeError(f"te.select: the condition must be bool, got {test.dtype}")
    left, right = same_dtype("te.select", a, b)
    return joined(ir.Select(test.expr, left.expr, right.expr), left.dtype, test, left, right)


if_then_else = select


def minimum(a: Operand, b: Operand) -> Value:
    """The smaller of two elements."""
    return binary("min", a, b)


def maximum(a: Operand, b: Operand) -> Value:
    """The larger of two elements."""
    return binary("max", a, b)


def clip(value: Operand, low: Operand, high: Operand) -> Value:
    """`value` limited to [low, high]."""
    return minimum(maximum(value, low), high)


def all_of(*conditions: Operand) -> Value:
    """The conjunction of bool conditions."""
    result = as_value(conditions[0], "te.all_of", "bool") if conditions else const(True, "bool")
    for condition in conditions[1:]:
        result = result & condition
    return result


def call(name: str, value: Operand) -> Value:
    """A scalar function of one float: exp, log, sqrt or tanh."""
    if not isinstance(name, str) or name not in MATH:
        raise TeError(f"te.call: the function must be one of {', '.join(MATH)}, got {name}")
    inner = as_value(value, f"te.call {name}", "float32")
    if not is_float(inner.dtype):
        raise TeError(f'te.call {name}: the operand must be a float, got {inner.dtype}; write te.cast("float32", ...)')
    return joined(ir.Call(name, (inner.expr,), inner.dtype), inner.dtype, inner)


# --- reductions ------------------------------------------------------------------------------------------------------


def reducer(
    combine: Callable[[Value, Value], Any], identity: Number | Callable[[str], Number], name: str = "reducer"
) -> Reducer:
    """A user-defined reducer; `combine` must be commutative and associative, `identity` its neutral value or a function
    from dtype to it."""
    return Reducer(combine, identity, name)


def reduce_axis(extent: int, name: str) -> ReduceAxis:
    """An axis [0, extent) to reduce over."""
    check_name("te.reduce_axis", name)
    return ReduceAxis(name, check_extent(f"te.reduce_axis {name}", "the extent", extent))


sum = reducer(lambda x, y: x + y, 0, "sum")
max = reducer(maximum, lambda dtype: limits(dtype)[0], "max")
min = reducer(minimum, lambda dtype: limits(dtype)[1], "min")


# --- tensors ---------------------------------------------------------------------------------------------------------


def placeholder(shape: Sequence[int], dtype: str, name: str) -> Tensor:
    """A tensor that is given."""
    check_name("te.placeholder", name)
    check_dtype(f"te.placeholder {name}", dtype)
    return Tensor(name, check_shape(f"te.placeholder {name}", shape), dtype)


def compute(shape: Sequence[int], body: Callable[..., Any], name: str) -> Tensor:
    """The tensor whose element at `indices` is `body(*indices)`; the parameters of `body` name its axes."""
    check_name("te.compute", name)
    where = f"te.compute {name}"
    extents = check_shape(where, shape)
    axes = axis_names(where, body, len(extents))
    value = result_of(where, body(*(Value(ir.Var(axis_name(a)), "int32") for a in axes)))
    check_axes(where, axes, value)
    return Tensor(name, extents, value.dtype, Stage(axes, value))


def pad(tensor: Tensor, before: Sequence[int], after: Sequence[int], value: Number, name: str | None = None) -> Tensor:
    """`tensor` with `before` and `after` elements of `value` added on each side of each dimension."""
    where = f"te.pad {tensor.name}"
    low, high = check_padding(where, tensor, before), check_padding(where, tensor, after)
    shape = tuple(b + n + a for b, n, a in zip(low, tensor.shape, high, strict=True))

    def body(*indices: Value) -> Value:
        moved = tuple(i - b if b else i for i, b in zip(indices, low, strict=True))
        inside = [i >= b for i, b in zip(indices, low, strict=True) if b]
        inside += [i < b + n for i, b, n, a in zip(indices, low, tensor.shape, high, strict=True) if a]
        return select(all_of(*inside), tensor[moved], const(value, tensor.dtype)) if inside else tensor[moved]

    return compute(shape, body, f"{tensor.name}_pad" if name is None else name)


def check_padding(where: str, tensor: Tensor, amounts: Sequence[int]) -> tuple[int, ...]:
    """One amount >= 0 for each dimension."""
    if not isinstance(amounts, Sequence):
        raise TeError(f"{where}: padding must be {len(tensor.shape)} integers >= 0, got {amounts!r}")
    if len(amounts) != len(tensor.shape) or any(not is_int(a) or a < 0 for a in amounts):
        raise TeError(f"{where}: padding must be {len(tensor.shape)} integers >= 0, got {list(amounts)}")
    return tuple(int(amount) for amount in amounts)


def axis_names(where: str, body: Callable[..., Any], rank: int) -> tuple[str, ...]:
    """The parameter names of `body`; i0, i1, ... for `*indices`."""
    if not callable(body):
        raise TeError(f"{where}: the body must be a function of the indices, got {body!r}")
    parameters = list(inspect.signature(body).parameters.values())
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        named += [f"i{d}" for d in range(len(named), rank)]
    if len(named) != rank:
        raise TeError(f"{where}: the function must take one index for each of {rank} dimensions, got {len(named)}")
    return tuple(named)


def check_axes(where: str, axes: tuple[str, ...], value: Value) -> None:
    """Refuse a reduce axis that nothing reduces, and two axes of one name."""
    if value.axes:
        names = ", ".join(axis.name for axis in value.axes)
        raise TeError(f"{where}: a reduce axis must be named by the reduction around it, got {names} outside of one")
    for axis in value.reduction.axes if value.reduction else ():
        if axis.name in axes:
            raise TeError(f"{where}: its axes must have different names, got {axis.name} twice")
