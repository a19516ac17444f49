"""float16 and bfloat16 values to float32 and back, rounded to nearest even.

On a CPU without such conversions they are a few integer operations, so no object depends on a
compiler's soft-float library.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.types import (
    FLOAT,
    HALF,
    I16,
    I32,
    Type,
    Value,
    constant,
    element_type,
    splat,
    type_like,
)

_QUIET_NAN = 0x7FC0  # in bfloat16


def to_float32(builder: Value, value: Value, dtype: str) -> Value:
    """A float16 or bfloat16 as float32, exactly."""
    if element_type(value.type) == HALF:
        return builder.fpext(value, type_like(value, FLOAT))
    bits = builder.zext(value, type_like(value, I32))
    if dtype == "bfloat16":
        return builder.bitcast(builder.shl(bits, splat(bits, 16)), type_like(value, FLOAT))
    return _half_to_float(builder, bits)


def from_float32(builder: Value, value: Value, dtype: str, kind: Type) -> Value:
    """A float32 as float16 or bfloat16 of the register type `kind`, rounded to nearest even."""
    if kind == HALF:
        return builder.fptrunc(value, type_like(value, HALF))
    bits = builder.bitcast(value, type_like(value, I32))
    rounded = _float_to_bfloat(builder, value, bits) if dtype == "bfloat16" else _float_to_half(builder, bits)
    return builder.trunc(rounded, type_like(value, I16))


def _float_to_bfloat(builder: Value, value: Value, bits: Value) -> Value:
    """The upper half of the bits, rounded: plus 0x7FFF, plus 1 if the kept part is odd."""
    odd = builder.and_(builder.lshr(bits, splat(bits, 16)), splat(bits, 1))
    total = builder.add(bits, builder.add(odd, splat(bits, 0x7FFF)))
    upper = builder.lshr(total, splat(bits, 16))
    sign = builder.and_(builder.lshr(bits, splat(bits, 16)), splat(bits, 0x8000))
    is_nan = builder.fcmp_unordered("uno", value, value)
    return builder.select(is_nan, builder.or_(sign, splat(bits, _QUIET_NAN)), upper)


def _half_to_float(builder: Value, bits: Value) -> Value:
    """Shifts the fields into place; a product with 2**112 rebases exponents, also of subnormals."""
    kind = type_like(bits, FLOAT)
    magnitude = builder.shl(builder.and_(bits, splat(bits, 0x7FFF)), splat(bits, 13))
    scaled = builder.fmul(builder.bitcast(magnitude, kind), constant(kind, 2.0**112))
    finite = builder.bitcast(scaled, bits.type)
    special = builder.icmp_unsigned(">=", magnitude, splat(bits, 0x7C00 << 13))
    top = builder.select(special, builder.or_(magnitude, splat(bits, 0x7F800000)), finite)
    sign = builder.shl(builder.and_(bits, splat(bits, 0x8000)), splat(bits, 16))
    return builder.bitcast(builder.or_(top, sign), kind)


def _float_to_half(builder: Value, bits: Value) -> Value:
    """Rounds normal numbers in their bits; subnormals by adding 0.5, whose last place is theirs."""
    kind = type_like(bits, FLOAT)
    sign = builder.lshr(builder.and_(bits, splat(bits, 0x80000000)), splat(bits, 16))
    magnitude = builder.and_(bits, splat(bits, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(magnitude, splat(bits, 13)), splat(bits, 1))
    rebased = builder.sub(builder.add(magnitude, builder.add(odd, splat(bits, 0xFFF))), splat(bits, 112 << 23))
    normal = builder.lshr(rebased, splat(bits, 13))
    shifted = builder.fadd(builder.bitcast(magnitude, kind), constant(kind, 0.5))
    subnormal = builder.sub(builder.bitcast(shifted, bits.type), splat(bits, 0x3F000000))
    small = builder.icmp_unsigned("<", magnitude, splat(bits, 113 << 23))
    huge = builder.icmp_unsigned(">=", magnitude, splat(bits, 143 << 23))
    is_nan = builder.icmp_unsigned(">", magnitude, splat(bits, 0x7F800000))
    large = builder.select(is_nan, splat(bits, 0x7E00), splat(bits, 0x7C00))
    result = builder.select(huge, large, builder.select(small, subnormal, normal))
    return builder.or_(result, sign)
