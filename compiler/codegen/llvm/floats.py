"""float16 and bfloat16: to float32 before every operation and back, rounded to nearest even, after it.

Where the CPU has no such conversions they are a few integer operations, so that no object calls a library for them.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.types import FLOAT, HALF, I16, I32, Type, Value, constant, element, like, same

QUIET = 0x7FC0  # the bfloat16 that a NaN becomes


def widen(builder: Value, value: Value, dtype: str) -> Value:
    """A float16 or bfloat16 as float32, exactly."""
    if element(value.type) == HALF:
        return builder.fpext(value, like(value, FLOAT))
    bits = builder.zext(value, like(value, I32))
    if dtype == "bfloat16":
        return builder.bitcast(builder.shl(bits, same(bits, 16)), like(value, FLOAT))
    return _half_to_float(builder, bits)


def narrow(builder: Value, value: Value, dtype: str, kind: Type) -> Value:
    """A float32 as float16 or bfloat16 of the register type `kind`, rounded to nearest even."""
    if kind == HALF:
        return builder.fptrunc(value, like(value, HALF))
    bits = builder.bitcast(value, like(value, I32))
    rounded = _to_bfloat(builder, value, bits) if dtype == "bfloat16" else _float_to_half(builder, bits)
    return builder.trunc(rounded, like(value, I16))


def _to_bfloat(builder: Value, value: Value, bits: Value) -> Value:
    """The upper half of the bits, after half of the last place less one, and one more where that place is odd."""
    odd = builder.and_(builder.lshr(bits, same(bits, 16)), same(bits, 1))
    sum_ = builder.add(bits, builder.add(odd, same(bits, 0x7FFF)))
    upper = builder.lshr(sum_, same(bits, 16))
    sign = builder.and_(builder.lshr(bits, same(bits, 16)), same(bits, 0x8000))
    is_nan = builder.fcmp_unordered("uno", value, value)
    return builder.select(is_nan, builder.or_(sign, same(bits, QUIET)), upper)


def _half_to_float(builder: Value, bits: Value) -> Value:
    """The fields move to their places; a product with 2**112 corrects the exponent, of subnormal numbers too."""
    kind = like(bits, FLOAT)
    magnitude = builder.shl(builder.and_(bits, same(bits, 0x7FFF)), same(bits, 13))
    scaled = builder.fmul(builder.bitcast(magnitude, kind), constant(kind, 2.0**112))
    finite = builder.bitcast(scaled, bits.type)
    special = builder.icmp_unsigned(">=", magnitude, same(bits, 0x7C00 << 13))
    top = builder.select(special, builder.or_(magnitude, same(bits, 0x7F800000)), finite)
    sign = builder.shl(builder.and_(bits, same(bits, 0x8000)), same(bits, 16))
    return builder.bitcast(builder.or_(top, sign), kind)


def _float_to_half(builder: Value, bits: Value) -> Value:
    """Normal numbers are rounded in the bits; subnormal ones by adding 0.5, whose last place is theirs."""
    kind = like(bits, FLOAT)
    sign = builder.lshr(builder.and_(bits, same(bits, 0x80000000)), same(bits, 16))
    magnitude = builder.and_(bits, same(bits, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(magnitude, same(bits, 13)), same(bits, 1))
    rebased = builder.sub(builder.add(magnitude, builder.add(odd, same(bits, 0xFFF))), same(bits, 112 << 23))
    normal = builder.lshr(rebased, same(bits, 13))
    shifted = builder.fadd(builder.bitcast(magnitude, kind), constant(kind, 0.5))
    subnormal = builder.sub(builder.bitcast(shifted, bits.type), same(bits, 0x3F000000))
    small = builder.icmp_unsigned("<", magnitude, same(bits, 113 << 23))
    huge = builder.icmp_unsigned(">=", magnitude, same(bits, 143 << 23))
    is_nan = builder.icmp_unsigned(">", magnitude, same(bits, 0x7F800000))
    large = builder.select(is_nan, same(bits, 0x7E00), same(bits, 0x7C00))
    result = builder.select(huge, large, builder.select(small, subnormal, normal))
    return builder.or_(result, sign)
