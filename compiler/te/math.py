# SPDX-License-Identifier: Apache-2.0
"""Scalar functions on elements: `te.exp(x[i])` is `te.call("exp", x[i])`.

All arguments and the result have one dtype; a Python number takes that of the other argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import ir
from vdla.compiler.ir import FLOATS, NUMBERS, SCALAR_FUNCTIONS, WHOLE_BYTES, WIDE_FLOATS, call_dtype
from vdla.compiler.te.expr import Operand, TeError, Value, as_value, divide, make_value, same_dtype

__all__ = [
    "abs", "call", "ceil", "cos", "divide", "erf", "exp", "floor", "isnan", "log", "popcount", "pow", "round",
    "round_product", "rsqrt",
 "sigmoid", "sin", "sqrt", "tanh", "trunc",
]  # fmt: skip
_KINDS = {
    FLOATS: "a float",
    NUMBERS: "a number",
    WHOLE_BYTES: "an integer of whole bytes",
    WIDE_FLOATS: "float32 or float64",
}


def call(name: str, *args: Operand) -> Value:
    """The scalar function `name`, one of `ir.SCALAR_FUNCTIONS`."""
    if not isinstance(name, str) or name not in SCALAR_FUNCTIONS:
        raise TeError(f"te.call: the function must be one of {', '.join(SCALAR_FUNCTIONS)}, got {name}")
    function = SCALAR_FUNCTIONS[name]
    if len(args) != function.arity:
        raise TeError(f"te.call {name}: the number of arguments must be {function.arity}, got {len(args)}")
    where = f"te.call {name}"
    values = _arguments(where, args)
    dtype = values[0].dtype
    if dtype not in function.dtypes:
        fix = '; write te.cast("float32", ...)' if function.dtypes == FLOATS else ""
        raise TeError(f"{where}: the operand must be {_KINDS[function.dtypes]}, got {dtype}{fix}")
    result = call_dtype(name, dtype)
    return make_value(ir.Call(name, tuple(value.expr for value in values), result), result, *values)


def _arguments(where: str, args: Sequence[Operand]) -> tuple[Value, ...]:
    """The arguments as values of one dtype; a number alone is float32."""
    if len(args) == 1:
        return (as_value(args[0], where, "float32"),)
    first, second = same_dtype(where, args[0], args[1])
    return first, second, *(same_dtype(where, first, arg)[1] for arg in args[2:])


def exp(x: Operand) -> Value:
    """e to the power of x."""
    return call("exp", x)


def log(x: Operand) -> Value:
    """The natural logarithm."""
    return call("log", x)


def sqrt(x: Operand) -> Value:
    """The square root, correctly rounded."""
    return call("sqrt", x)


def rsqrt(x: Operand) -> Value:
    """1 / sqrt(x)."""
    return call("rsqrt", x)


def tanh(x: Operand) -> Value:
    """The hyperbolic tangent."""
    return call("tanh", x)


def sigmoid(x: Operand) -> Value:
    """1 / (1 + exp(-x)), without overflow."""
    return call("sigmoid", x)


def erf(x: Operand) -> Value:
    """The error function."""
    return call("erf", x)


def sin(x: Operand) -> Value:
    """The sine of x in radians."""
    return call("sin", x)


def cos(x: Operand) -> Value:
    """The cosine of x in radians."""
    return call("cos", x)


def pow(x: Operand, y: Operand) -> Value:
    """x to the power of y."""
    return call("pow", x, y)


def floor(x: Operand) -> Value:
    """The largest integer at most x, as a float."""
    return call("floor", x)


def ceil(x: Operand) -> Value:
    """The smallest integer at least x, as a float."""
    return call("ceil", x)


def round(x: Operand) -> Value:
    """The nearest integer, ties to even, as a float."""
    return call("round", x)


def round_product(x: Operand, y: Operand, low: Operand, high: Operand) -> Value:
    """x * y rounded half to even to an int32, clamped to the integers `low` and `high`.

    The product of float32 is rounded once, and the result within 2**22 of 0. The product of float64
    is rounded to float64 before.
    """
    return call("round_product", x, y, low, high)


def trunc(x: Operand) -> Value:
    """x rounded towards zero, as a float."""
    return call("trunc", x)


def abs(x: Operand) -> Value:
    """The absolute value; of the lowest integer, itself."""
    return call("abs", x)


def popcount(x: Operand) -> Value:
    """The number of one bits of an integer of 8 bits or more."""
    return call("popcount", x)


def isnan(x: Operand) -> Value:
    """Whether a float is NaN, a bool."""
    return call("isnan", x)
