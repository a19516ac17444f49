# SPDX-License-Identifier: Apache-2.0
"""Element-wise operators on several tensors, with NumPy's broadcasting.

Shapes are aligned at their last dimension; missing dimensions and those of extent 1 are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from vdla.compiler import te
from vdla.compiler.ir import is_float, is_integer
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_float,
    check_number,
    check_same_dtype,
    check_tensor,
    extents_of,
    is_one,
    same_extent,
    shape_text,
)
from vdla.compiler.operators.results import result_name

_Combine = Callable[[te.Value, te.Value], te.Value]


def broadcast_shape(where: str, *shapes: Sequence[te.Dim]) -> tuple[te.Dim, ...]:
    """The shape that all `shapes` broadcast to; a symbolic extent equals only itself, never 1."""
    rank = max(len(shape) for shape in shapes)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for extents in zip(*aligned, strict=True):
        distinct = [extent for extent in extents if not is_one(extent)] or [1]
        if not all(same_extent(extent, distinct[0]) for extent in distinct):
            text = " and ".join(shape_text(shape) for shape in shapes)
            raise OperatorError(f"{where}: shapes must broadcast to one another, got {text}")
        result.append(distinct[0])
    return tuple(result)


def _element(x: te.Tensor, indices: Sequence[te.Value]) -> te.Value:
    """The element of `x` at an index of the broadcast shape."""
    trailing = indices[len(indices) - len(x.shape) :]
    zero = te.const(0, "int32")
    return x[tuple(zero if is_one(extent) else index for index, extent in zip(trailing, x.shape, strict=True))]


def combine_elements(
    where: str, combine: Callable[..., te.Value], tensors: Sequence[te.Tensor], name: str
) -> te.Tensor:
    """`combine` of the elements of all `tensors`, broadcast."""
    for tensor in tensors:
        check_tensor(where, "every operand", tensor)
    shape = broadcast_shape(where, *(tensor.shape for tensor in tensors))
    return te.compute(shape, lambda *i: combine(*(_element(tensor, i) for tensor in tensors)), name)


def broadcast_to(x: te.Tensor, shape: Sequence[te.Dim], name: str | None = None) -> te.Tensor:
    """`x` repeated to the common broadcast shape of `x` and `shape`, as ONNX's Expand."""
    check_tensor("broadcast_to", "x", x)
    wanted = extents_of("broadcast_to", "shape", shape)
    for extent in wanted:
        if isinstance(extent, int):
            at_least("broadcast_to", "every extent", extent, 1)
    full = broadcast_shape("broadcast_to", x.shape, wanted)
    return te.compute(full, lambda *i: _element(x, i), result_name(x, "broadcast", name))


def _binary(where: str, combine: _Combine, a: te.Tensor, b: te.Tensor, name: str | None) -> te.Tensor:
    """A binary operator on operands of one dtype."""
    check_same_dtype(where, a, b)
    return combine_elements(where, combine, (a, b), result_name(a, f"{b.name}_{where}", name))


class BroadcastOperator(Protocol):
    """An element-wise operator on two tensors, which may name its result."""

    def __call__(self, a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
        """The operator on elements of `a` and `b`, broadcast."""


def _operator(apply: Callable[..., te.Tensor], operator: str, combine: _Combine, formula: str) -> BroadcastOperator:
    """The operator that combines elements by `apply`; `formula` is its docstring."""

    def combined(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
        return apply(operator, combine, a, b, name)

    combined.__name__, combined.__doc__ = operator, formula
    return combined


# --- arithmetic -----------------------------------------------------------------------------------


def _arithmetic(where: str, combine: _Combine, a: te.Tensor, b: te.Tensor, name: str | None) -> te.Tensor:
    """A binary operator on numbers."""
    check_number(where, "a", a)
    return _binary(where, combine, a, b, name)


add = _operator(_arithmetic, "add", lambda x, y: x + y, "a + b; integers wrap.")

subtract = _operator(_arithmetic, "subtract", lambda x, y: x - y, "a - b; integers wrap.")

multiply = _operator(_arithmetic, "multiply", lambda x, y: x * y, "a * b; integers wrap.")


def divide(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a / b; integer quotients are truncated, as in ONNX and C."""
    check_same_dtype("divide", a, b)
    return _arithmetic("divide", (lambda x, y: x / y) if is_float(a.dtype) else _truncated_quotient, a, b, name)


maximum = _operator(_arithmetic, "maximum", te.maximum, "The larger operand; NaN if either is NaN.")

minimum = _operator(_arithmetic, "minimum", te.minimum, "The smaller operand; NaN if either is NaN.")


def power(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a ** b; floats."""
    check_float("power", "a", a)
    return _arithmetic("power", te.pow, a, b, name)


def remainder(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a - floor(a / b) * b of integers, with the sign of b as in Python."""
    check_same_dtype("remainder", a, b)
    if not is_integer(a.dtype):
        raise OperatorError(f"remainder: a must be of an integer dtype, got {a.dtype}")
    return _arithmetic("remainder", lambda x, y: x % y, a, b, name)


def prelu(x: te.Tensor, slope: te.Tensor, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else slope * x; slope broadcasts."""
    return _arithmetic("prelu", lambda v, s: te.select(v < 0, v * s, v), x, slope, name)


def _truncated_quotient(x: te.Value, y: te.Value) -> te.Value:
    """The integer quotient rounded towards zero: floor, plus 1 if negative and inexact."""
    quotient = x // y
    up = (quotient < 0) & (quotient * y != x)
    return quotient + te.cast(x.dtype, up)


# --- comparisons and bools ------------------------------------------------------------------------

equal = _operator(_binary, "equal", lambda x, y: x == y, "Whether a == b, as bool.")

less = _operator(_arithmetic, "less", lambda x, y: x < y, "Whether a < b, as bool.")

less_equal = _operator(_arithmetic, "less_equal", lambda x, y: x <= y, "Whether a <= b, as bool.")

greater = _operator(_arithmetic, "greater", lambda x, y: x > y, "Whether a > b, as bool.")

greater_equal = _operator(_arithmetic, "greater_equal", lambda x, y: x >= y, "Whether a >= b, as bool.")


def _logical(where: str, combine: _Combine, a: te.Tensor, b: te.Tensor, name: str | None) -> te.Tensor:
    """A binary operator on bools."""
    check_same_dtype(where, a, b)
    if a.dtype != "bool":
        raise OperatorError(f"{where}: operands must be of dtype bool, got {a.dtype}")
    return _binary(where, combine, a, b, name)


logical_and = _operator(_logical, "logical_and", lambda x, y: x & y, "a and b.")

logical_or = _operator(_logical, "logical_or", lambda x, y: x | y, "a or b.")

logical_xor = _operator(_logical, "logical_xor", lambda x, y: x != y, "a xor b.")


def where(condition: te.Tensor, a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a where `condition` is True, else b; all three broadcast."""
    check_tensor("where", "condition", condition)
    if condition.dtype != "bool":
        raise OperatorError(f"where: condition must be of dtype bool, got {condition.dtype}")
    check_same_dtype("where", a, b)
    return combine_elements("where", te.select, (condition, a, b), result_name(condition, "where", name))
