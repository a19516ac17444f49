"""The scalar functions of `ir/functions.py` in LLVM IR, of scalars and vectors.

What IEEE 754 defines is exact. The rest is in `polynomials.py`, or for some float64 functions in
the C library, called lane by lane. float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vdla.compiler.codegen.llvm import polynomials
from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.double_functions import emit_double
from vdla.compiler.codegen.llvm.objects import CodegenError
from vdla.compiler.codegen.llvm.polynomials import absolute, copy_sign
from vdla.compiler.codegen.llvm.round_product import round_product
from vdla.compiler.codegen.llvm.small_floats import from_float32, to_float32
from vdla.compiler.codegen.llvm.types import (
    DOUBLE,
    Value,
    call_c_library,
    call_intrinsic,
    is_gpu,
    is_signed,
    is_x86,
    splat,
    type_like,
    type_suffix,
    value_type,
)
from vdla.compiler.ir import SMALL_FLOATS, is_float
from vdla.compiler.target import Target

EmitFunction = Callable[..., Value]  # (builder, *arguments)


def call_function(arithmetic: Arithmetic, name: str, dtype: str, args: list[Value]) -> Value:
    """The value of scalar function `name` for arguments of `dtype`.

    Raises:
        CodegenError: the function is unknown.
    """
    builder = arithmetic.builder
    if dtype in SMALL_FLOATS:
        result = call_function(arithmetic, name, "float32", [to_float32(builder, arg, dtype) for arg in args])
        kind = value_type(dtype, arithmetic.target)
        return result if name == "isnan" else from_float32(builder, result, dtype, kind)
    if name == "abs" and not is_float(dtype):
        return arithmetic.wrap(dtype, _integer_abs(builder, args[0], dtype))
    if name == "round_product":
        return round_product(arithmetic, dtype, *args)
    if name in _ROUNDINGS:
        return _round(arithmetic, name, args[0])
    table = _table(dtype, arithmetic.target)
    if name not in table:
        raise CodegenError(f"call: function must be one of {', '.join((*_SINGLE, *_ROUNDINGS))}, got {name}")
    return table[name](builder, *args)


def _table(dtype: str, target: Target) -> dict[str, EmitFunction]:
    """The functions of a type; a GPU has no C library."""
    if is_gpu(target):
        return {**_SINGLE, **(_SINGLE_ON_GPU if dtype == "float32" else DOUBLE_ON_GPU)}
    return _SINGLE if dtype == "float32" else {**_SINGLE, **DOUBLE_FROM_C_LIBRARY}


def _integer_abs(builder: Value, x: Value, dtype: str) -> Value:
    if not is_signed(dtype):
        return x
    return builder.select(builder.icmp_signed("<", x, splat(x, 0)), builder.neg(x), x)


def _sqrt(builder: Value, x: Value) -> Value:
    return call_intrinsic(builder, f"llvm.sqrt.{type_suffix(x.type)}", x.type, x)


def _rsqrt(builder: Value, x: Value) -> Value:
    return builder.fdiv(splat(x, 1.0), _sqrt(builder, x))


def _popcount(builder: Value, x: Value) -> Value:
    return call_intrinsic(builder, f"llvm.ctpop.{type_suffix(x.type)}", x.type, x)


def _c_library(builder: Value, *args: Value, name: str) -> Value:
    return call_c_library(builder, name, *args)


def _own_double(builder: Value, *args: Value, name: str) -> Value:
    return emit_double(builder, name, *args)


def _sine(builder: Value, x: Value, name: str, of_large: polynomials.EmitDouble) -> Value:
    return polynomials.sin_or_cos(builder, x, name, of_large)


def _pow_of_doubles(builder: Value, x: Value, y: Value) -> Value:
    """With the sign and the limits."""
    return _power_with_limits(builder, x, y, emit_double(builder, "pow", x, y))


# --- powers ---------------------------------------------------------------------------------------


def _pow(builder: Value, x: Value, y: Value) -> Value:
    """float32: exp(y log |x|) in float64, with the sign."""
    kind = type_like(x, DOUBLE)
    base, exponent = builder.fpext(absolute(builder, x), kind), builder.fpext(y, kind)
    power = polynomials.exp(builder, builder.fmul(exponent, polynomials.log(builder, base)))
    return _power_with_limits(builder, x, y, builder.fptrunc(power, x.type))


def _power_with_limits(builder: Value, x: Value, y: Value, magnitude: Value) -> Value:
    """The power by that of |x|: 1 where IEEE 754 says so, else with its sign."""
    ones = builder.or_(builder.fcmp_ordered("==", y, splat(y, 0.0)), builder.fcmp_ordered("==", x, splat(x, 1.0)))
    unit = builder.fcmp_ordered("==", absolute(builder, x), splat(x, 1.0))
    infinite = builder.fcmp_ordered("==", absolute(builder, y), splat(y, polynomials.INFINITY))
    ones = builder.or_(ones, builder.and_(unit, infinite))
    return builder.select(ones, splat(x, 1.0), _signed_power(builder, x, y, magnitude))


def _signed_power(builder: Value, x: Value, y: Value, magnitude: Value) -> Value:
    """The power with its sign: of negative x, negative for odd y and NaN unless y is an integer."""
    form = polynomials.format_of(y)
    limit = 2.0 ** (form.mantissa + 1)  # all such floats are even integers
    large = builder.fcmp_ordered(">=", absolute(builder, y), splat(y, limit))
    number = builder.select(large, splat(y, 0.0), y)
    kind = type_like(y, form.integer)
    integer = call_intrinsic(builder, f"llvm.fptosi.sat.{type_suffix(kind)}.{type_suffix(y.type)}", kind, number)
    whole = builder.fcmp_ordered("==", builder.sitofp(integer, y.type), number)
    odd = builder.and_(whole, builder.icmp_signed("!=", builder.and_(integer, splat(integer, 1)), splat(integer, 0)))
    result = builder.select(odd, copy_sign(builder, magnitude, x), magnitude)
    negative = builder.fcmp_ordered("<", x, splat(x, 0.0))
    finite = builder.fcmp_ordered(">", x, splat(x, -polynomials.INFINITY))
    wrong = builder.and_(builder.and_(negative, finite), builder.not_(whole))
    return builder.select(wrong, splat(x, float("nan")), result)


# --- roundings ------------------------------------------------------------------------------------


def _round(arithmetic: Arithmetic, name: str, x: Value) -> Value:
    """Rounds to an integer; by an instruction if the processor has one."""
    target = arithmetic.target
    if (is_x86(target) and target.has("sse4.1")) or target.architecture == "aarch64" or is_gpu(target):
        return call_intrinsic(arithmetic.builder, f"llvm.{_ROUNDINGS[name]}.{type_suffix(x.type)}", x.type, x)
    return _round_without_instruction(arithmetic.builder, name, x)


def _round_without_instruction(builder: Value, name: str, x: Value) -> Value:
    """Large numbers have no fraction and stay; the others fit an integer."""
    form = polynomials.format_of(x)
    limit, magnitude = splat(x, 2.0**form.mantissa), absolute(builder, x)
    small = builder.fcmp_ordered("<", magnitude, limit)
    number = builder.select(small, x, splat(x, 0.0))
    if name == "round":
        result = builder.fsub(builder.fadd(absolute(builder, number), limit), limit)
    else:
        result = builder.sitofp(builder.fptosi(number, type_like(x, form.integer)), x.type)
    if name == "floor":
        above = builder.fcmp_ordered(">", result, number)
        result = builder.select(above, builder.fsub(result, splat(x, 1.0)), result)
    if name == "ceil":
        below = builder.fcmp_ordered("<", result, number)
        result = builder.select(below, builder.fadd(result, splat(x, 1.0)), result)
    return builder.select(small, copy_sign(builder, result, x), x)


# --- tables ---------------------------------------------------------------------------------------


_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}
_SINGLE: dict[str, EmitFunction] = {
    "exp": polynomials.exp,
    "log": polynomials.log,
    "tanh": polynomials.tanh,
    "sigmoid": polynomials.sigmoid,
    "erf": polynomials.erf,
    "sin": partial(_sine, name="sin", of_large=call_c_library),
    "cos": partial(_sine, name="cos", of_large=call_c_library),
    "pow": _pow,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "divide": lambda builder, x, y: builder.fdiv(x, y),
    "abs": absolute,
    "popcount": _popcount,
    "isnan": lambda builder, x: builder.fcmp_unordered("uno", x, x),
}
DOUBLE_FROM_C_LIBRARY: dict[str, EmitFunction] = {
    name: partial(_c_library, name=name) for name in ("erf", "sin", "cos", "pow")
}
DOUBLE_ON_GPU: dict[str, EmitFunction] = {
    **{name: partial(_own_double, name=name) for name in ("erf", "sin", "cos")},
    "pow": _pow_of_doubles,
}
_SINGLE_ON_GPU: dict[str, EmitFunction] = {
    name: partial(_sine, name=name, of_large=emit_double) for name in ("sin", "cos")
}
