# SPDX-License-Identifier: Apache-2.0
"""The scalar functions of `ir/functions.py` in LLVM IR, of scalars and vectors.

What IEEE 754 defines is exact. The rest is in `polynomials.py`, or for some float64 functions in
the C library, called lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir as llvm

from vdla.compiler.codegen.llvm import polynomials
from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.double_functions import emit_double
from vdla.compiler.codegen.llvm.numbers import Number, lane_by_lane, where
from vdla.compiler.codegen.llvm.objects import CodegenError
from vdla.compiler.codegen.llvm.polynomials import copy_sign
from vdla.compiler.codegen.llvm.types import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    Value,
    call_intrinsic,
    element_type,
    is_gpu,
    is_signed,
    is_x86,
    lane_count,
)
from vdla.compiler.ir import ROUND_PRODUCT_LIMITS, is_float
from vdla.compiler.target import Target

EmitFunction = Callable[..., Number]
_SCALEF_LANES = (4, 8, 16)
_CURRENT_ROUNDING = 4


def call_function(arithmetic: Arithmetic, name: str, dtype: str, args: list[Value]) -> Value:
    """The value of scalar function `name` for arguments of `dtype`.

    Raises:
        CodegenError: the function is unknown.
    """
    builder, target = arithmetic.builder, arithmetic.target
    numbers = [Number(builder, arg) for arg in args]
    if name == "abs" and not is_float(dtype):
        (x,) = numbers
        return where(x < 0, -x, x).value if is_signed(dtype) else x.value
    if name == "round_product":
        return _round_product(target, dtype, *numbers).value
    if name in _ROUNDINGS:
        return _round(target, name, *numbers).value
    table = _table(dtype, target)
    if name not in table:
        raise CodegenError(f"call: function must be one of {', '.join((*_SINGLE, *_ROUNDINGS))}, got {name}")
    return table[name](*numbers).value


def _table(dtype: str, target: Target) -> dict[str, EmitFunction]:
    """The functions of a type; a GPU has no C library."""
    if is_gpu(target):
        return {**_SINGLE, **(_SINGLE_ON_GPU if dtype == "float32" else DOUBLE_ON_GPU)}
    single = {**_SINGLE, "exp": _exp_of_lanes} if is_x86(target) and target.has("avx512vl") else _SINGLE
    return single if dtype == "float32" else {**single, **DOUBLE_FROM_C_LIBRARY}


def _c_library(name: str, *args: Number) -> Number:
    """A float64 function of the C library; vectors lane by lane."""
    builder, kind = args[0].builder, llvm.FunctionType(DOUBLE, [DOUBLE] * len(args))
    callee = builder.module.globals.get(name) or llvm.Function(builder.module, kind, name)
    return lane_by_lane(lambda *scalars: Number(builder, builder.call(callee, [x.value for x in scalars])), *args)


# --- exponentials ---------------------------------------------------------------------------------


def _exp_of_lanes(x: Number) -> Number:
    """exp with vscalefps, which multiplies by a power of two; of whole registers of float32."""
    whole = element_type(x.kind) == FLOAT and lane_count(x.value) in _SCALEF_LANES
    return polynomials.exp(x, _scalef if whole else None)


def _scalef(x: Number, power: Number) -> Number:
    """x * 2**power, rounded once, by AVX-512."""
    lanes = x.kind.count
    mask = llvm.IntType(max(lanes, 8))(-1)  # of all lanes
    rounding = [I32(_CURRENT_ROUNDING)] if lanes == max(_SCALEF_LANES) else []
    name = f"llvm.x86.avx512.mask.scalef.ps.{lanes * 32}"
    operands = x.value, power.value, x.value, mask, *rounding
    return Number(x.builder, call_intrinsic(x.builder, name, x.kind, *operands))


# --- powers ---------------------------------------------------------------------------------------


def _pow(x: Number, y: Number) -> Number:
    """float32: exp(y log |x|) in float64, with the sign."""
    base, exponent = abs(x).convert("fpext", DOUBLE), y.convert("fpext", DOUBLE)
    power = polynomials.exp(exponent * polynomials.log(base))
    return _power_with_limits(x, y, power.convert("fptrunc", element_type(x.kind)))


def _power_with_limits(x: Number, y: Number, magnitude: Number) -> Number:
    """The power by that of |x|: 1 where IEEE 754 says so, else with its sign."""
    ones = y.equals(0.0) | x.equals(1.0)
    ones = ones | (abs(x).equals(1.0) & abs(y).equals(polynomials.INFINITY))
    return where(ones, 1.0, _signed_power(x, y, magnitude))


def _signed_power(x: Number, y: Number, magnitude: Number) -> Number:
    """The power with its sign: of negative x, negative for odd y and NaN unless y is an integer."""
    form = polynomials.format_of(y)
    limit = 2.0 ** (form.mantissa + 1)  # all such floats are even integers
    number = where(abs(y) >= limit, 0.0, y)
    integer = number.saturate("fptosi", form.integer)
    whole = integer.convert("sitofp", element_type(y.kind)).equals(number)
    odd = whole & (integer & 1).differs(0)
    result = where(odd, copy_sign(magnitude, x), magnitude)
    wrong = ((x < 0.0) & (x > -polynomials.INFINITY)) & ~whole
    return where(wrong, float("nan"), result)


# --- roundings ------------------------------------------------------------------------------------


def _round(target: Target, name: str, x: Number) -> Number:
    """Rounds to an integer; by an instruction if the processor has one."""
    if (is_x86(target) and target.has("sse4.1")) or target.architecture == "aarch64" or is_gpu(target):
        return x.call(_ROUNDINGS[name])
    return _round_without_instruction(name, x)


def _round_without_instruction(name: str, x: Number) -> Number:
    """Large numbers have no fraction and stay; the others fit an integer."""
    form = polynomials.format_of(x)
    limit = 2.0**form.mantissa
    small = abs(x) < limit
    number = where(small, x, 0.0)
    if name == "round":
        result = (abs(number) + limit) - limit
    else:
        result = number.convert("fptosi", form.integer).convert("sitofp", element_type(x.kind))
    if name == "floor":
        result = where(result > number, result - 1.0, result)
    if name == "ceil":
        result = where(result < number, result + 1.0, result)
    return where(small, copy_sign(result, x), x)


# --- products -------------------------------------------------------------------------------------

_SHIFT, _SHIFT_BITS = 1.5 * 2**23, 0x4B400000  # in float32
_WIDE_SHIFT = 1.5 * 2**52  # in float64, whose low 32 bits are then the integer


def _round_product(target: Target, dtype: str, x: Number, y: Number, low: Number, high: Number) -> Number:
    """`x * y` rounded half to even to an int32, clamped to `low` and `high`; NaN as `high`.

    Adding 1.5 * 2**m, where m is the number of mantissa bits, rounds a number to an integer, which
    then lies in the low bits of the sum. With a fused multiply-add the product of float32 is exact
    until it is rounded.
    """
    least, most = (x.like(float(limit)) for limit in ROUND_PRODUCT_LIMITS[dtype])
    low, high = where(low > least, low, least), where(high < most, high, most)
    if dtype == "float32" and (target.architecture == "aarch64" or target.has("fma") or is_gpu(target)):
        total = x.call("fma", y, _SHIFT)
        return _clamp(total, low + _SHIFT, high + _SHIFT).convert("bitcast", I32) - _SHIFT_BITS
    if dtype == "float32":
        x, y, low, high = (value.convert("fpext", DOUBLE) for value in (x, y, low, high))
    return (_clamp(x * y, low, high) + _WIDE_SHIFT).convert("bitcast", I64).convert("trunc", I32)


def _clamp(value: Number, low: Number, high: Number) -> Number:
    """A float clamped to a range, NaN as `high`."""
    most = where(value < high, value, high)
    return where(most > low, most, low)


# --- tables ---------------------------------------------------------------------------------------


_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}
_SINGLE: dict[str, EmitFunction] = {
    "exp": polynomials.exp,
    "log": polynomials.log,
    "tanh": polynomials.tanh,
    "sigmoid": polynomials.sigmoid,
    "erf": polynomials.erf,
    **{name: partial(polynomials.sin_or_cos, name=name, of_large=_c_library) for name in ("sin", "cos")},
    "pow": _pow,
    "sqrt": lambda x: x.call("sqrt"),
    "rsqrt": lambda x: x.like(1.0) / x.call("sqrt"),
    "divide": lambda x, y: x / y,
    "abs": abs,
    "popcount": lambda x: x.call("ctpop"),
    "isnan": Number.is_nan,
}
DOUBLE_FROM_C_LIBRARY: dict[str, EmitFunction] = {
    name: partial(_c_library, name) for name in ("erf", "sin", "cos", "pow")
}
DOUBLE_ON_GPU: dict[str, EmitFunction] = {
    **{name: partial(emit_double, name) for name in ("erf", "sin", "cos")},
    "pow": lambda x, y: _power_with_limits(x, y, emit_double("pow", x, y)),
}
_SINGLE_ON_GPU: dict[str, EmitFunction] = {
    name: partial(polynomials.sin_or_cos, name=name, of_large=emit_double) for name in ("sin", "cos")
}
