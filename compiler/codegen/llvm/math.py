"""The scalar functions of expressions in LLVM IR, by the names of `functions.py`; scalars and vectors alike.

What IEEE 754 defines is exact; the rest is `polynomials.py`, and where that has none for float64, the C library,
lane by lane. float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler.codegen.llvm import polynomials
from vdla.compiler.codegen.llvm.floats import narrow, widen
from vdla.compiler.codegen.llvm.library import library
from vdla.compiler.codegen.llvm.objects import CodegenError
from vdla.compiler.codegen.llvm.polynomials import absolute, with_sign
from vdla.compiler.codegen.llvm.types import (
    DOUBLE,
    I32,
    Value,
    intrinsic,
    is_signed,
    is_x86,
    like,
    same,
    suffix,
    value_type,
)
from vdla.compiler.codegen.llvm.values import Operators
from vdla.compiler.ir import SMALL_FLOATS, is_float

Function = Callable[..., Value]  # (builder, *arguments)


def call(operators: Operators, name: str, dtype: str, args: list[Value]) -> Value:
    """The function `name` of arguments of `dtype`.

    Raises:
        CodegenError: there is no such function.
    """
    builder = operators.builder
    if dtype in SMALL_FLOATS:
        result = call(operators, name, "float32", [widen(builder, arg, dtype) for arg in args])
        return result if name == "isnan" else narrow(builder, result, dtype, value_type(dtype, operators.target))
    if name == "abs" and not is_float(dtype):
        return operators.wrapped(dtype, _integer_abs(builder, args[0], dtype))
    if name in ROUNDINGS:
        return _rounded(operators, name, args[0])
    table = SINGLE if dtype == "float32" else {**SINGLE, **DOUBLE_ONLY}
    if name not in table:
        raise CodegenError(f"call: function must be one of {', '.join((*SINGLE, *ROUNDINGS))}, got {name}")
    return table[name](builder, *args)


def _integer_abs(builder: Value, x: Value, dtype: str) -> Value:
    if not is_signed(dtype):
        return x
    return builder.select(builder.icmp_signed("<", x, same(x, 0)), builder.neg(x), x)


def _sqrt(builder: Value, x: Value) -> Value:
    return intrinsic(builder, f"llvm.sqrt.{suffix(x.type)}", x.type, [x])


def _rsqrt(builder: Value, x: Value) -> Value:
    return builder.fdiv(same(x, 1.0), _sqrt(builder, x))


def _popcount(builder: Value, x: Value) -> Value:
    return intrinsic(builder, f"llvm.ctpop.{suffix(x.type)}", x.type, [x])


# --- powers ----------------------------------------------------------------------------------------------------------


def _pow(builder: Value, x: Value, y: Value) -> Value:
    """float32: exp(y log |x|) in float64, and the sign."""
    kind = like(x, DOUBLE)
    base, exponent = builder.fpext(absolute(builder, x), kind), builder.fpext(y, kind)
    power = polynomials.exp(builder, builder.fmul(exponent, polynomials.log(builder, base)))
    size = builder.fptrunc(power, x.type)
    ones = builder.or_(builder.fcmp_ordered("==", y, same(y, 0.0)), builder.fcmp_ordered("==", x, same(x, 1.0)))
    unit = builder.fcmp_ordered("==", absolute(builder, x), same(x, 1.0))
    endless = builder.fcmp_ordered("==", absolute(builder, y), same(y, polynomials.INFINITY))
    ones = builder.or_(ones, builder.and_(unit, endless))
    return builder.select(ones, same(x, 1.0), _power_sign(builder, x, y, size))


def _power_sign(builder: Value, x: Value, y: Value, size: Value) -> Value:
    """The power of a negative number: negative for odd exponents, NaN for what is no integer."""
    large = builder.fcmp_ordered(">=", absolute(builder, y), same(y, 2.0**24))  # all of them even
    number = builder.select(large, same(y, 0.0), y)
    kind = like(y, I32)
    integer = intrinsic(builder, f"llvm.fptosi.sat.{suffix(kind)}.{suffix(y.type)}", kind, [number])
    whole = builder.fcmp_ordered("==", builder.sitofp(integer, y.type), number)
    odd = builder.and_(whole, builder.icmp_signed("!=", builder.and_(integer, same(integer, 1)), same(integer, 0)))
    result = builder.select(odd, with_sign(builder, size, x), size)
    negative = builder.fcmp_ordered("<", x, same(x, 0.0))
    finite = builder.fcmp_ordered(">", x, same(x, -polynomials.INFINITY))
    wrong = builder.and_(builder.and_(negative, finite), builder.not_(whole))
    return builder.select(wrong, same(x, float("nan")), result)


# --- roundings -------------------------------------------------------------------------------------------------------


def _rounded(operators: Operators, name: str, x: Value) -> Value:
    """To an integer; by the CPU's instructions if it has them."""
    target = operators.target
    if (is_x86(target) and target.has("sse4.1")) or target.architecture == "aarch64":
        return intrinsic(operators.builder, f"llvm.{ROUNDINGS[name]}.{suffix(x.type)}", x.type, [x])
    return _rounded_by_hand(operators.builder, name, x)


def _rounded_by_hand(builder: Value, name: str, x: Value) -> Value:
    """What has no fraction stays; the rest fits an integer."""
    form = polynomials.format_of(x)
    limit, size = same(x, 2.0**form.mantissa), absolute(builder, x)
    small = builder.fcmp_ordered("<", size, limit)
    number = builder.select(small, x, same(x, 0.0))
    if name == "round":
        result = builder.fsub(builder.fadd(absolute(builder, number), limit), limit)
    else:
        result = builder.sitofp(builder.fptosi(number, like(x, form.integer)), x.type)
    if name == "floor":
        above = builder.fcmp_ordered(">", result, number)
        result = builder.select(above, builder.fsub(result, same(x, 1.0)), result)
    if name == "ceil":
        below = builder.fcmp_ordered("<", result, number)
        result = builder.select(below, builder.fadd(result, same(x, 1.0)), result)
    return builder.select(small, with_sign(builder, result, x), x)


# --- tables ----------------------------------------------------------------------------------------------------------


ROUNDINGS = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}
SINGLE: dict[str, Function] = {
    "exp": polynomials.exp,
    "log": polynomials.log,
    "tanh": polynomials.tanh,
    "sigmoid": polynomials.sigmoid,
    "erf": polynomials.erf,
    "sin": lambda builder, x: polynomials.sine(builder, x, "sin"),
    "cos": lambda builder, x: polynomials.sine(builder, x, "cos"),
    "pow": _pow,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "divide": lambda builder, x, y: builder.fdiv(x, y),
    "abs": absolute,
    "popcount": _popcount,
    "isnan": lambda builder, x: builder.fcmp_unordered("uno", x, x),
}
DOUBLE_ONLY: dict[str, Function] = {name: library(name) for name in ("erf", "sin", "cos", "pow")}
