"""Conversions between element types, of scalars and vectors.

Integers wrap, floats round to nearest even, and floats to integers truncate and saturate, with NaN
as 0. Bool is true for everything but 0.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.small_floats import from_float32, to_float32
from vdla.compiler.codegen.llvm.types import (
    BITS,
    DOUBLE,
    FLOAT,
    I8,
    I32,
    Type,
    Value,
    call_intrinsic,
    element_type,
    is_signed,
    splat,
    type_like,
    type_suffix,
    value_type,
)
from vdla.compiler.ir import SMALL_FLOATS, is_float, limits

_EXACT_BITS = 16  # limits of integers up to this width are exact in float32


def cast(arithmetic: Arithmetic, value: Value, source: str, dtype: str) -> Value:
    """`value`, of dtype `source`, as `dtype`."""
    if source == dtype:
        return value
    if source in SMALL_FLOATS:
        return cast(arithmetic, to_float32(arithmetic.builder, value, source), "float32", dtype)
    if dtype in SMALL_FLOATS:
        wide = cast(arithmetic, value, source, "float32")
        return from_float32(arithmetic.builder, wide, dtype, value_type(dtype, arithmetic.target))
    if is_float(source):
        return _from_float(arithmetic, value, dtype)
    return _from_integer(arithmetic, value, source, dtype)


def _from_float(arithmetic: Arithmetic, value: Value, dtype: str) -> Value:
    builder = arithmetic.builder
    if dtype == "bool":
        return builder.fcmp_unordered("!=", value, splat(value, 0.0))
    if dtype == "float64":
        return builder.fpext(value, type_like(value, DOUBLE))
    if dtype == "float32":
        return builder.fptrunc(value, type_like(value, FLOAT))
    kind = type_like(value, value_type(dtype, arithmetic.target))
    if BITS[dtype] <= _EXACT_BITS:
        return builder.trunc(_clamp_to_integer(builder, value, dtype), kind)
    name = "fptosi" if is_signed(dtype) else "fptoui"
    return call_intrinsic(builder, f"llvm.{name}.sat.{type_suffix(kind)}.{type_suffix(value.type)}", kind, value)


def _clamp_to_integer(builder: Value, value: Value, dtype: str) -> Value:
    """A float clamped to the range of `dtype`, NaN as 0, as an i32."""
    low, high = (splat(value, float(limit)) for limit in limits(dtype))
    above = builder.select(builder.fcmp_ordered(">", low, value), low, value)
    clamped = builder.select(builder.fcmp_ordered("<", high, above), high, above)
    number = builder.select(builder.fcmp_unordered("uno", value, value), splat(value, 0.0), clamped)
    return builder.fptosi(number, type_like(value, I32))


def _from_integer(arithmetic: Arithmetic, value: Value, source: str, dtype: str) -> Value:
    builder, kind = arithmetic.builder, type_like(value, value_type(dtype, arithmetic.target))
    if dtype == "bool":
        return builder.icmp_unsigned("!=", value, splat(value, 0))
    if is_float(dtype):
        return builder.sitofp(value, kind) if is_signed(source) else builder.uitofp(value, kind)
    old, new = value.type, kind
    if _width(old) > _width(new):
        value = builder.trunc(value, kind)
    elif _width(old) < _width(new):
        value = builder.sext(value, kind) if is_signed(source) else builder.zext(value, kind)
    return arithmetic.wrap(dtype, value)


def _width(kind: Type) -> int:
    return int(element_type(kind).width)


def to_memory(builder: Value, value: Value, dtype: str) -> Value:
    """A register value in its memory type."""
    return builder.zext(value, type_like(value, I8)) if dtype == "bool" else value


def from_memory(builder: Value, value: Value, dtype: str) -> Value:
    """A value loaded from memory in its register type."""
    return builder.icmp_unsigned("!=", value, splat(value, 0)) if dtype == "bool" else value
