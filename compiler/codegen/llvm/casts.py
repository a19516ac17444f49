"""Conversions between element types: integers wrap, floats round to nearest even, floats to integers saturate.

A NaN is the integer 0; as a bool everything but 0 is true. Scalars and vectors alike.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.floats import narrow, widen
from vdla.compiler.codegen.llvm.types import (
    BITS,
    DOUBLE,
    FLOAT,
    I8,
    I32,
    Type,
    Value,
    element,
    intrinsic,
    is_signed,
    like,
    same,
    suffix,
    value_type,
)
from vdla.compiler.codegen.llvm.values import Operators
from vdla.compiler.ir import SMALL_FLOATS, is_float, limits

EXACT_BITS = 16  # integers of so many bits are exact in every float that they are made from


def cast(operators: Operators, value: Value, source: str, dtype: str) -> Value:
    """`value`, of dtype `source`, as `dtype`."""
    if source == dtype:
        return value
    if source in SMALL_FLOATS:
        return cast(operators, widen(operators.builder, value, source), "float32", dtype)
    if dtype in SMALL_FLOATS:
        wide = cast(operators, value, source, "float32")
        return narrow(operators.builder, wide, dtype, value_type(dtype, operators.target))
    if is_float(source):
        return _from_float(operators, value, dtype)
    return _from_integer(operators, value, source, dtype)


def _from_float(operators: Operators, value: Value, dtype: str) -> Value:
    builder = operators.builder
    if dtype == "bool":
        return builder.fcmp_unordered("!=", value, same(value, 0.0))
    if dtype == "float64":
        return builder.fpext(value, like(value, DOUBLE))
    if dtype == "float32":
        return builder.fptrunc(value, like(value, FLOAT))
    kind = like(value, value_type(dtype, operators.target))
    if BITS[dtype] <= EXACT_BITS:
        return builder.trunc(_small_integer(builder, value, dtype), kind)
    name = "fptosi" if is_signed(dtype) else "fptoui"
    return intrinsic(builder, f"llvm.{name}.sat.{suffix(kind)}.{suffix(value.type)}", kind, [value])


def _small_integer(builder: Value, value: Value, dtype: str) -> Value:
    """The float limited to the range of `dtype`, 0 where it is NaN, as i32."""
    low, high = (same(value, float(limit)) for limit in limits(dtype))
    above = builder.select(builder.fcmp_ordered(">", low, value), low, value)
    limited = builder.select(builder.fcmp_ordered("<", high, above), high, above)
    number = builder.select(builder.fcmp_unordered("uno", value, value), same(value, 0.0), limited)
    return builder.fptosi(number, like(value, I32))


def _from_integer(operators: Operators, value: Value, source: str, dtype: str) -> Value:
    builder, kind = operators.builder, like(value, value_type(dtype, operators.target))
    if dtype == "bool":
        return builder.icmp_unsigned("!=", value, same(value, 0))
    if is_float(dtype):
        return builder.sitofp(value, kind) if is_signed(source) else builder.uitofp(value, kind)
    old, new = value.type, kind
    if _width(old) > _width(new):
        value = builder.trunc(value, kind)
    elif _width(old) < _width(new):
        value = builder.sext(value, kind) if is_signed(source) else builder.zext(value, kind)
    return operators.wrapped(dtype, value)


def _width(kind: Type) -> int:
    return int(element(kind).width)


def to_memory(builder: Value, value: Value, dtype: str) -> Value:
    """A value as it lies in memory."""
    return builder.zext(value, like(value, I8)) if dtype == "bool" else value


def from_memory(builder: Value, value: Value, dtype: str) -> Value:
    """What lies in memory as a value."""
    return builder.icmp_unsigned("!=", value, same(value, 0)) if dtype == "bool" else value
