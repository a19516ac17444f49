"""Operators on several tensors, element by element, with numpy's broadcasting.

Shapes are lined up at their last dimension; a dimension of extent 1, or one that is missing, repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler import te
from vdla.compiler.ir import is_float, is_integer
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_float,
    check_number,
    check_same_dtype,
    check_tensor,
    dims,
    is_one,
    same_extent,
    shape_text,
)
from vdla.compiler.operators.results import result_name

Combine = Callable[[te.Value, te.Value], te.Value]


def broadcast_shape(where: str, *shapes: Sequence[te.Dim]) -> tuple[te.Dim, ...]:
    """The shape that all of `shapes` broadcast to. A symbolic extent is no 1, and equal to itself alone."""
    rank = max(len(shape) for shape in shapes)
    lined_up = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for extents in zip(*lined_up, strict=True):
        wide = [extent for extent in extents if not is_one(extent)] or [1]
        if not all(same_extent(extent, wide[0]) for extent in wide):
            found = " and ".join(shape_text(shape) for shape in shapes)
            raise OperatorError(f"{where}: shapes must broadcast to one another, got {found}")
        result.append(wide[0])
    return tuple(result)


def element(x: te.Tensor, indices: Sequence[te.Value]) -> te.Value:
    """The element of `x` at a point of the shape that it broadcasts to."""
    own = indices[len(indices) - len(x.shape) :]
    zero = te.const(0, "int32")
    return x[tuple(zero if is_one(extent) else index for index, extent in zip(own, x.shape, strict=True))]


def combined(where: str, combine: Callable[..., te.Value], tensors: Sequence[te.Tensor], name: str) -> te.Tensor:
    """`combine` of the elements of all `tensors`."""
    for tensor in tensors:
        check_tensor(where, "every operand", tensor)
    shape = broadcast_shape(where, *(tensor.shape for tensor in tensors))
    return te.compute(shape, lambda *i: combine(*(element(tensor, i) for tensor in tensors)), name)


def broadcast_to(x: te.Tensor, shape: Sequence[te.Dim], name: str | None = None) -> te.Tensor:
    """`x` repeated to the shape that it and `shape` broadcast to (numpy's rule, in both directions as ONNX has it)."""
    check_tensor("broadcast_to", "x", x)
    wanted = dims("broadcast_to", "shape", shape)
    for extent in wanted:
        if isinstance(extent, int):
            at_least("broadcast_to", "every extent", extent, 1)
    full = broadcast_shape("broadcast_to", x.shape, wanted)
    return te.compute(full, lambda *i: element(x, i), result_name(x, "broadcast", name))


def binary(where: str, combine: Combine, a: te.Tensor, b: te.Tensor, name: str | None) -> te.Tensor:
    """A binary operator on operands of one dtype."""
    check_same_dtype(where, a, b)
    return combined(where, combine, (a, b), result_name(a, f"{b.name}_{where}", name))


# --- arithmetic ------------------------------------------------------------------------------------------------------


def arithmetic(where: str, combine: Combine, a: te.Tensor, b: te.Tensor, name: str | None) -> te.Tensor:
    """A binary operator on numbers."""
    check_number(where, "a", a)
    return binary(where, combine, a, b, name)


def add(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a + b; integers wrap."""
    return arithmetic("add", lambda x, y: x + y, a, b, name)


def subtract(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a - b; integers wrap."""
    return arithmetic("subtract", lambda x, y: x - y, a, b, name)


def multiply(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a * b; integers wrap."""
    return arithmetic("multiply", lambda x, y: x * y, a, b, name)


def divide(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a / b of floats; of integers the quotient rounded towards zero, as ONNX and C have it."""
    check_same_dtype("divide", a, b)
    return arithmetic("divide", (lambda x, y: x / y) if is_float(a.dtype) else towards_zero, a, b, name)


def maximum(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """The larger; NaN if either is."""
    return arithmetic("maximum", te.maximum, a, b, name)


def minimum(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """The smaller; NaN if either is."""
    return arithmetic("minimum", te.minimum, a, b, name)


def power(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a to the power of b, both floats."""
    check_float("power", "a", a)
    return arithmetic("power", te.pow, a, b, name)


def remainder(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a - floor(a / b) * b of integers: the sign is that of b, as in Python."""
    check_same_dtype("remainder", a, b)
    if not is_integer(a.dtype):
        raise OperatorError(f"remainder: a must be of an integer dtype, got {a.dtype}")
    return arithmetic("remainder", lambda x, y: x % y, a, b, name)


def prelu(x: te.Tensor, slope: te.Tensor, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else slope * x; slope broadcasts."""
    return arithmetic("prelu", lambda v, s: te.select(v < 0, v * s, v), x, slope, name)


def towards_zero(x: te.Value, y: te.Value) -> te.Value:
    """The quotient of integers without its fraction: a floor, one more where it is negative and not exact."""
    quotient = x // y
    up = (quotient < 0) & (quotient * y != x)
    return quotient + te.cast(x.dtype, up)


# --- comparisons and bools -------------------------------------------------------------------------------------------


def equal(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether a == b, as bool."""
    return binary("equal", lambda x, y: x == y, a, b, name)


def less(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether a < b, as bool."""
    return arithmetic("less", lambda x, y: x < y, a, b, name)


def less_equal(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether a <= b, as bool."""
    return arithmetic("less_equal", lambda x, y: x <= y, a, b, name)


def greater(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether a > b, as bool."""
    return arithmetic("greater", lambda x, y: x > y, a, b, name)


def greater_equal(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether a >= b, as bool."""
    return arithmetic("greater_equal", lambda x, y: x >= y, a, b, name)


def logical(where: str, combine: Combine, a: te.Tensor, b: te.Tensor, name: str | None) -> te.Tensor:
    """A binary operator on bools."""
    check_same_dtype(where, a, b)
    if a.dtype != "bool":
        raise OperatorError(f"{where}: operands must be of dtype bool, got {a.dtype}")
    return binary(where, combine, a, b, name)


def logical_and(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether both hold."""
    return logical("logical_and", lambda x, y: x & y, a, b, name)


def logical_or(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether either holds."""
    return logical("logical_or", lambda x, y: x | y, a, b, name)


def logical_xor(a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether exactly one holds."""
    return logical("logical_xor", lambda x, y: x != y, a, b, name)


def where(condition: te.Tensor, a: te.Tensor, b: te.Tensor, name: str | None = None) -> te.Tensor:
    """a where the condition, of bools, holds, else b; all three broadcast."""
    check_tensor("where", "condition", condition)
    if condition.dtype != "bool":
        raise OperatorError(f"where: condition must be of dtype bool, got {condition.dtype}")
    check_same_dtype("where", a, b)
    return combined("where", te.select, (condition, a, b), result_name(condition, "where", name))
