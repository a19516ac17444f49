"""The product of two floats rounded half to even to an int32: the step that rescales sums.

Adding 1.5 * 2**m, where m is the number of mantissa bits, rounds a number to an integer, which then
lies in the low bits of the sum. With a fused multiply-add the product of float32 is exact until it
is rounded.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.types import (
    DOUBLE,
    I32,
    I64,
    Value,
    call_intrinsic,
    is_gpu,
    splat,
    type_like,
    type_suffix,
)
from vdla.compiler.ir.functions import ROUND_PRODUCT_LIMITS
from vdla.compiler.target import Target

_SHIFT, _SHIFT_BITS = 1.5 * 2**23, 0x4B400000  # in float32
_WIDE_SHIFT = 1.5 * 2**52  # in float64, whose low 32 bits are then the integer


def round_product(arithmetic: Arithmetic, dtype: str, x: Value, y: Value, low: Value, high: Value) -> Value:
    """`x * y` rounded to an int32, clamped to `low` and `high`; NaN as `high`."""
    builder = arithmetic.builder
    least, most = (splat(x, float(limit)) for limit in ROUND_PRODUCT_LIMITS[dtype])
    low, high = _largest(builder, low, least), _smallest(builder, high, most)
    if dtype == "float32" and _has_fused_product(arithmetic.target):
        shift = splat(x, _SHIFT)
        total = call_intrinsic(builder, f"llvm.fma.{type_suffix(x.type)}", x.type, x, y, shift)
        limits = builder.fadd(low, shift), builder.fadd(high, shift)
        bits = builder.bitcast(_clamp(builder, total, *limits), type_like(x, I32))
        return builder.sub(bits, splat(bits, _SHIFT_BITS))
    if dtype == "float32":
        x, y, low, high = (builder.fpext(value, type_like(value, DOUBLE)) for value in (x, y, low, high))
    clamped = _clamp(builder, builder.fmul(x, y), low, high)
    bits = builder.bitcast(builder.fadd(clamped, splat(clamped, _WIDE_SHIFT)), type_like(x, I64))
    return builder.trunc(bits, type_like(x, I32))


def _has_fused_product(target: Target) -> bool:
    """Whether the processor has a fused multiply-add."""
    return target.architecture == "aarch64" or target.has("fma") or is_gpu(target)


def _clamp(builder: Value, value: Value, low: Value, high: Value) -> Value:
    """A float clamped to a range, NaN as `high`."""
    return _largest(builder, _smallest(builder, value, high), low)


def _smallest(builder: Value, a: Value, b: Value) -> Value:
    """The smaller of two floats, `b` if one is NaN."""
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _largest(builder: Value, a: Value, b: Value) -> Value:
    """The larger of two floats, `b` if one is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)
