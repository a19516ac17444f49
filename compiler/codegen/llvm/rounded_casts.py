"""Narrow integers from rounded floats: `cast(round(x) + c)`, the end of every requantisation.

1.5 * 2^52 is added to a float64 (1.5 * 2^23 to a float32): the last bit of the sum counts 1, so
the addition rounds half to even, and the low bits of the sum are the integer.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.types import (
    BITS,
    FLOAT,
    I1,
    I32,
    I64,
    Type,
    Value,
    call_intrinsic,
    lane_count,
    splat,
    type_like,
    type_suffix,
    value_type,
)
from vdla.compiler.ir import limits
from vdla.compiler.target import Target

_FLOATS: dict[str, tuple[int, Type]] = {"float32": (23, I32), "float64": (52, I64)}  # bits of the mantissa, integer
_MOST_BITS = 16  # of a result: its limits less an addend are exact in float32
_SCALES = (2.0**-14, 2.0**64)  # 2^24, where float32 begins to skip integers, times the least saturates 8 bits


def rounded(expr: ir.Cast, source: str) -> tuple[ir.Expr, int] | None:
    """x and the small integer c, if the value of the cast is `round(x) + c` of dtype `source`."""
    if source not in _FLOATS or ir.is_float(expr.dtype) or not 8 <= BITS[expr.dtype] <= _MOST_BITS:
        return None
    value, addend = expr.value, 0.0
    match value:
        case ir.Binary(op="add", a=first, b=ir.Const(value=number)):
            value, addend = first, float(number)
    match value:
        case ir.Call(name="round", args=(inner,)) if addend.is_integer() and abs(addend) < 1 << BITS[expr.dtype]:
            return inner, int(addend)
    return None


def scaled(expr: ir.Expr, buffers: Mapping[str, ir.Buffer]) -> tuple[ir.Expr, ir.Expr] | None:
    """a and b, if the value is `float64(a) * float64(b)` of an int32 and a float32."""
    match expr:
        case ir.Binary(op="mul", a=ir.Cast(dtype="float64", value=a), b=ir.Cast(dtype="float64", value=b)):
            return (a, b) if (ir.dtype_of(a, buffers), ir.dtype_of(b, buffers)) == ("int32", "float32") else None
    return None


def can_fuse(target: Target, dtype: str) -> bool:
    """Whether `cast_scaled` can be used for results of `dtype`."""
    return BITS[dtype] == 8 and (target.has("fma") or target.architecture == "aarch64")


def cast_rounded(arithmetic: Arithmetic, value: Value, source: str, addend: int, dtype: str) -> Value:
    """round(value) + addend as an integer `dtype`, saturated; 0 for NaN, as `cast` gives it."""
    builder = arithmetic.builder
    mantissa, integer = _FLOATS[source]
    clamped = _clamp(builder, value, 0.0, addend, dtype)
    number = builder.select(builder.fcmp_unordered("uno", value, value), splat(value, float(-addend)), clamped)
    moved = builder.fadd(number, splat(value, 1.5 * 2.0**mantissa))
    return _low_bits(arithmetic, moved, integer, addend, dtype)


def is_moderate(arithmetic: Arithmetic, scale: Value) -> Value:
    """Whether all lanes of a float32 are in the range for which `cast_scaled` is exact."""
    builder, (low, high) = arithmetic.builder, (splat(scale, limit) for limit in _SCALES)
    inside = builder.and_(builder.fcmp_ordered(">=", scale, low), builder.fcmp_ordered("<=", scale, high))
    if lane_count(scale) is None:
        return inside
    return call_intrinsic(builder, f"llvm.vector.reduce.and.{type_suffix(inside.type)}", I1, inside)


def cast_scaled(arithmetic: Arithmetic, total: Value, scale: Value, addend: int, dtype: str) -> Value:
    """round(total * scale) + addend as an integer `dtype` of 8 bits, saturated.

    One rounding by a fused multiplication and addition: exact for an int32 of up to 2^24, and a
    greater one saturates.
    """
    builder, move = arithmetic.builder, 1.5 * 2.0**23
    number = builder.sitofp(total, type_like(total, FLOAT))
    kind = number.type
    moved = call_intrinsic(builder, f"llvm.fma.{type_suffix(kind)}", kind, number, scale, splat(number, move))
    return _low_bits(arithmetic, _clamp(builder, moved, move, addend, dtype), I32, addend, dtype)


def _clamp(builder: Value, value: Value, move: float, addend: int, dtype: str) -> Value:
    """The value clamped to move + the limits of `dtype` - addend."""
    low, high = (splat(value, move + float(limit - addend)) for limit in limits(dtype))
    above = builder.select(builder.fcmp_ordered(">", low, value), low, value)
    return builder.select(builder.fcmp_ordered("<", high, above), high, above)


def _low_bits(arithmetic: Arithmetic, value: Value, integer: Type, addend: int, dtype: str) -> Value:
    """The low bits of a float, plus the addend, as `dtype`."""
    builder = arithmetic.builder
    bits = builder.bitcast(value, type_like(value, integer))
    narrow = builder.trunc(bits, type_like(value, value_type(dtype, arithmetic.target)))
    return builder.add(narrow, splat(narrow, addend)) if addend else narrow
