# SPDX-License-Identifier: Apache-2.0
"""Conversions between element types, of scalars and vectors.

Integers wrap, floats round to nearest even, and floats to integers truncate and saturate, with NaN
as 0. Bool is true for everything but 0. float16 and bfloat16 convert to float32 and back alone.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.numbers import Number, where
from vdla.compiler.codegen.llvm.types import (
    BITS,
    FLOAT,
    HALF,
    I8,
    I16,
    I32,
    Type,
    Value,
    element_type,
    is_signed,
    type_like,
    value_type,
)
from vdla.compiler.ir import SMALL_FLOATS, is_float, limits

_EXACT_BITS = 16  # limits of integers up to this width are exact in float32


def cast(arithmetic: Arithmetic, value: Value, source: str, dtype: str) -> Value:
    """`value`, of dtype `source`, as `dtype`."""
    builder, kind = arithmetic.builder, value_type(dtype, arithmetic.target)
    if source == dtype:
        return value
    if source in SMALL_FLOATS:
        return to_float32(builder, value, source)
    if dtype in SMALL_FLOATS:
        return from_float32(builder, value, dtype, kind)
    number = Number(builder, value)
    return (_from_float(number, dtype, kind) if is_float(source) else _from_integer(number, source, dtype, kind)).value


def _from_float(number: Number, dtype: str, kind: Type) -> Number:
    if dtype == "bool":
        return number.compare("fcmp_unordered", "!=", 0.0)
    if is_float(dtype):
        return number.convert("fpext" if dtype == "float64" else "fptrunc", kind)
    if BITS[dtype] <= _EXACT_BITS:
        return _clamp_to_integer(number, dtype).convert("trunc", kind)
    return number.saturate("fptosi" if is_signed(dtype) else "fptoui", kind)


def _clamp_to_integer(number: Number, dtype: str) -> Number:
    """A float clamped to the range of `dtype`, NaN as 0, as an i32."""
    low, high = (number.like(float(limit)) for limit in limits(dtype))
    above = where(low > number, low, number)
    clamped = where(high < above, high, above)
    return where(number.is_nan(), 0.0, clamped).convert("fptosi", I32)


def _from_integer(number: Number, source: str, dtype: str, kind: Type) -> Number:
    extend, to_float = ("sext", "sitofp") if is_signed(source) else ("zext", "uitofp")
    if dtype == "bool":
        return number.compare("icmp_unsigned", "!=", 0)
    if is_float(dtype):
        return number.convert(to_float, kind)
    have, want = element_type(number.kind).width, kind.width
    if have != want:
        number = number.convert("trunc" if have > want else extend, kind)
    spare = want - BITS[dtype]  # of int2 and int4, which are an i8 in their range
    return number << spare >> spare if spare else number


def to_memory(builder: Value, value: Value, dtype: str) -> Value:
    """A register value in its memory type."""
    return builder.zext(value, type_like(value, I8)) if dtype == "bool" else value


def from_memory(builder: Value, value: Value, dtype: str) -> Value:
    """A value loaded from memory in its register type."""
    return Number(builder, value).compare("icmp_unsigned", "!=", 0).value if dtype == "bool" else value


# --- float16 and bfloat16 -------------------------------------------------------------------------
# On a CPU without such conversions they are a few integer operations, so no object depends on a
# compiler's soft-float library.

_QUIET_NAN = 0x7FC0  # in bfloat16


def to_float32(builder: Value, value: Value, dtype: str) -> Value:
    """A float16 or bfloat16 as float32, exactly."""
    number = Number(builder, value)
    if element_type(value.type) == HALF:
        return number.convert("fpext", FLOAT).value
    bits = number.convert("zext", I32)
    return ((bits << 16).convert("bitcast", FLOAT) if dtype == "bfloat16" else _half_to_float(bits)).value


def from_float32(builder: Value, value: Value, dtype: str, kind: Type) -> Value:
    """A float32 as float16 or bfloat16 of the register type `kind`, rounded to nearest even."""
    number = Number(builder, value)
    if kind == HALF:
        return number.convert("fptrunc", HALF).value
    bits = number.convert("bitcast", I32)
    return (_float_to_bfloat(number, bits) if dtype == "bfloat16" else _float_to_half(bits)).convert("trunc", I16).value


def _float_to_bfloat(number: Number, bits: Number) -> Number:
    """The upper half of the bits, rounded: plus 0x7FFF, plus 1 if the kept part is odd."""
    odd = bits.emit("lshr", 16) & 1
    upper = (bits + (odd + 0x7FFF)).emit("lshr", 16)
    sign = bits.emit("lshr", 16) & 0x8000
    return where(number.is_nan(), sign | _QUIET_NAN, upper)


def _half_to_float(bits: Number) -> Number:
    """Shifts the fields into place; a product with 2**112 rebases exponents, also of subnormals."""
    magnitude = (bits & 0x7FFF) << 13
    finite = (magnitude.convert("bitcast", FLOAT) * 2.0**112).convert("bitcast", I32)
    special = magnitude.compare("icmp_unsigned", ">=", 0x7C00 << 13)
    top = where(special, magnitude | 0x7F800000, finite)
    return (top | ((bits & 0x8000) << 16)).convert("bitcast", FLOAT)


def _float_to_half(bits: Number) -> Number:
    """Rounds normal numbers in their bits; subnormals by adding 0.5, whose last place is theirs."""
    sign = (bits & 0x80000000).emit("lshr", 16)
    magnitude = bits & 0x7FFFFFFF
    odd = magnitude.emit("lshr", 13) & 1
    normal = (magnitude + (odd + 0xFFF) - (112 << 23)).emit("lshr", 13)
    subnormal = (magnitude.convert("bitcast", FLOAT) + 0.5).convert("bitcast", I32) - 0x3F000000
    small, huge, is_nan = (
        magnitude.compare("icmp_unsigned", symbol, limit)
        for symbol, limit in (("<", 113 << 23), (">=", 143 << 23), (">", 0x7F800000))
    )
    large = where(is_nan, bits.like(0x7E00), 0x7C00)
    return where(huge, large, where(small, subnormal, normal)) | sign
