# SPDX-License-Identifier: Apache-2.0
"""Sixteen int32 lanes as a value of compiled code, on any processor.

Indices are in elements of their array and are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # noqa: F401  first, since it is what a user must install where either is missing

# isort: split
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import raw_memcpy
from numba.core.datamodel import models
from numba.core.extending import intrinsic, register_model

LANES = 16
Value = Any  # Numba's and llvmlite's objects, which have no types

I32 = ir.IntType(32)
VECTOR = ir.VectorType(I32, LANES)
_WIDE, _NARROW = ir.VectorType(ir.IntType(64), LANES), ir.VectorType(ir.IntType(8), LANES)
_SMALL = 1 << 29  # products of such sums with factors of 24 bits are exact in float64


class _Int32x16(types.Type):
    """Numba's type of sixteen int32 lanes."""

    def __init__(self) -> None:
        super().__init__(name="int32x16")


@register_model(_Int32x16)
class _Int32x16Model(models.PrimitiveModel):
    def __init__(self, manager: Value, kind: Value) -> None:
        super().__init__(manager, kind, VECTOR)  # type: ignore[no-untyped-call]


INT32X16 = _Int32x16()


def operation(function: Callable[..., Value]) -> Value:
    """An intrinsic, typed as compiled code calls it: without the typing argument."""
    return intrinsic(function)


def pointer(context: Value, builder: Value, signature: Value, args: Value, element: Value) -> Value:
    """The address of an element of the first argument, the second being its index."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    address = builder.gep(array.data, [args[1]])
    return builder.bitcast(address, ir.PointerType(element))


@operation
def load16(typing: Value, array: Value, index: Value) -> Value:
    """The sixteen elements of an int32 array from an index on."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        return builder.load(pointer(context, builder, signature, args, VECTOR), align=4, typ=VECTOR)

    return INT32X16(array, types.intp), emit


@operation
def broadcast16(typing: Value, array: Value, index: Value) -> Value:
    """One element of an int32 array in all lanes."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        value = builder.load(pointer(context, builder, signature, args, I32), align=4, typ=I32)
        return _splat(builder, value)

    return INT32X16(array, types.intp), emit


@operation
def store16(typing: Value, array: Value, index: Value, lanes: Value) -> Value:
    """Write the lanes to an int32 array from an index on."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        builder.store(args[2], pointer(context, builder, signature, args, VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, INT32X16), emit


@operation
def splat16(typing: Value, value: Value) -> Value:
    """The low 32 bits of an integer in all lanes."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        return _splat(builder, builder.trunc(args[0], I32))

    return INT32X16(types.int64), emit


def _binary(emit_lanes: Callable[[Value, Value, Value], Value]) -> Value:
    """An operation on two vectors."""

    def function(typing: Value, a: Value, b: Value) -> Value:
        def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
            return emit_lanes(builder, *args)

        return INT32X16(INT32X16, INT32X16), emit

    return operation(function)


def _shift(builder: Value, b: Value) -> Value:
    """The low five bits of each lane."""
    return builder.and_(b, ir.Constant(VECTOR, [31] * LANES))


def _rounded_shift(builder: Value, a: Value, b: Value) -> Value:
    """`a >> b`, rounded half up: the last bit that is shifted out is added."""
    one, zero = ir.Constant(VECTOR, [1] * LANES), ir.Constant(VECTOR, [0] * LANES)
    shift = _shift(builder, b)
    half = builder.and_(builder.ashr(a, _shift(builder, builder.sub(shift, one))), one)
    half = builder.select(builder.icmp_signed("==", shift, zero), zero, half)
    return builder.add(builder.ashr(a, shift), half)


def _minimum(builder: Value, a: Value, b: Value) -> Value:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _maximum(builder: Value, a: Value, b: Value) -> Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


# Sums, differences and products wrap.
add16 = _binary(lambda builder, a, b: builder.add(a, b))
sub16 = _binary(lambda builder, a, b: builder.sub(a, b))
mul16 = _binary(lambda builder, a, b: builder.mul(a, b))
min16 = _binary(_minimum)
max16 = _binary(_maximum)
shift_left16 = _binary(lambda builder, a, b: builder.shl(a, _shift(builder, b)))
shift_right16 = _binary(_rounded_shift)


@operation
def requantise16(
    typing: Value, sums: Value, scales: Value, index: Value, zero: Value, low: Value, high: Value, out: Value,
    place: Value,
) -> Value:  # fmt: skip
    """Write the sums, requantised with sixteen packed scales from an index on, as bytes; on any
    processor. They are rounded half to even, as `fixed_point` says.

    Products of at most 53 bits are exact in float64, which takes fewer instructions than int64
    where a processor does not shift it by lanes.
    """

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        sums, scales, index, zero, low, high, out, place = args
        kinds = signature.args
        source = context.make_array(kinds[1])(context, builder, scales)
        address = builder.bitcast(builder.gep(source.data, [index]), ir.PointerType(_WIDE))
        packed = builder.load(address, align=8, typ=_WIDE)
        biased = builder.add(sums, builder.trunc(packed, VECTOR))
        target = context.make_array(kinds[6])(context, builder, out)
        pointer = builder.bitcast(builder.gep(target.data, [place]), ir.PointerType(_NARROW))
        with builder.if_else(_are_small(builder, biased), likely=True) as (small, large):
            with small:
                rounded = _rounded_float64(builder, biased, packed, builder.sub(low, zero), builder.sub(high, zero))
                result = builder.add(rounded, _splat(builder, builder.trunc(zero, _NARROW.element), _NARROW))
                builder.store(result, pointer, align=1)
            with large:
                builder.store(_requantised_int64(builder, biased, packed, zero, low, high), pointer, align=1)
        return context.get_dummy_value()

    return types.void(INT32X16, scales, types.intp, *[types.int64] * 3, out, types.intp), emit


def _are_small(builder: Value, values: Value) -> Value:
    """Whether all lanes are so small that a product with a scale of 24 bits has at most 53."""
    moved = builder.add(values, ir.Constant(VECTOR, [_SMALL] * LANES))
    large = builder.icmp_unsigned(">=", moved, ir.Constant(VECTOR, [2 * _SMALL] * LANES))
    return builder.icmp_unsigned("==", builder.bitcast(large, ir.IntType(LANES)), ir.Constant(ir.IntType(LANES), 0))


def _rounded_float64(builder: Value, biased: Value, packed: Value, low: Value, high: Value) -> Value:
    """The low bytes of the rounded products, within bounds.

    Bits of a scale become those of a float64: 2 ** 52 plus the factor, and a power of two. Adding
    1.5 * 2 ** 52 rounds to an integer, half to even, which is in the low bits then.
    """
    double = ir.VectorType(ir.DoubleType(), LANES)

    def const(value: int) -> Value:
        return ir.Constant(_WIDE, [value] * LANES)

    def floats(value: float) -> Value:
        return ir.Constant(double, [value] * LANES)

    factor = builder.or_(builder.and_(builder.lshr(packed, const(32)), const(0xFFFFFF)), const((52 + 1023) << 52))
    factor = builder.fsub(builder.bitcast(factor, double), floats(2.0**52))
    exponent = builder.and_(builder.lshr(packed, const(4)), const(63 << 52))
    power = builder.bitcast(builder.sub(const(1023 << 52), exponent), double)
    value = builder.fmul(builder.sitofp(biased, double), builder.fmul(factor, power))
    lowest, highest = (_splat(builder, builder.sitofp(bound, ir.DoubleType()), double) for bound in (low, high))
    value = builder.select(builder.fcmp_ordered("<", value, lowest), lowest, value)
    value = builder.select(builder.fcmp_ordered(">", value, highest), highest, value)
    rounded = builder.fadd(value, floats(1.5 * 2.0**52))
    return builder.trunc(builder.bitcast(rounded, _WIDE), _NARROW)


def _requantised_int64(builder: Value, biased: Value, packed: Value, zero: Value, low: Value, high: Value) -> Value:
    """The bytes of products of up to 55 bits."""

    def const(value: int) -> Value:
        return ir.Constant(_WIDE, [value] * LANES)

    def lanes(value: Value) -> Value:
        return _splat(builder, value, _WIDE)

    factor = builder.and_(builder.lshr(packed, const(32)), const(0xFFFFFF))
    value = builder.mul(builder.sext(biased, _WIDE), factor)
    shift = builder.and_(builder.lshr(packed, const(56)), const(63))
    odd = builder.and_(builder.ashr(value, shift), const(1))
    half = builder.add(builder.sub(builder.lshr(builder.shl(const(1), shift), const(1)), const(1)), odd)
    half = builder.select(builder.icmp_signed("==", shift, const(0)), const(0), half)
    value = builder.add(builder.ashr(builder.add(value, half), shift), lanes(zero))
    value = builder.select(builder.icmp_signed("<", value, lanes(low)), lanes(low), value)
    value = builder.select(builder.icmp_signed(">", value, lanes(high)), lanes(high), value)
    return builder.trunc(value, _NARROW)


@operation
def widen16(typing: Value, array: Value, index: Value) -> Value:
    """The sixteen elements of an int8 array from an index on, in int32 lanes; on any processor."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        narrow = ir.VectorType(ir.IntType(8), LANES)
        elements = builder.load(pointer(context, builder, signature, args, narrow), align=1, typ=narrow)
        return builder.sext(elements, VECTOR)

    return INT32X16(array, types.intp), emit


@operation
def widen_bytes(typing: Value, target: Value, source: Value, index: Value) -> Value:
    """Write sixteen elements of an int8 array from an index on to the same places of an int16
    array.
    """

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        arrays = [context.make_array(signature.args[n])(context, builder, args[n]) for n in (0, 1)]
        into, start = (builder.gep(array.data, [args[2]]) for array in arrays)
        narrow, wide = (ir.VectorType(ir.IntType(bits), LANES) for bits in (8, 16))
        elements = builder.load(builder.bitcast(start, ir.PointerType(narrow)), align=1, typ=narrow)
        builder.store(builder.sext(elements, wide), builder.bitcast(into, ir.PointerType(wide)), align=2)
        return context.get_dummy_value()

    return types.void(target, source, types.intp), emit


@operation
def copy_bytes(typing: Value, target: Value, at: Value, source: Value, start: Value, count: Value) -> Value:
    """Copy bytes from one array to another, which do not overlap."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        into = context.make_array(signature.args[0])(context, builder, args[0])
        array = context.make_array(signature.args[2])(context, builder, args[2])
        to, words = builder.gep(into.data, [args[1]]), builder.gep(array.data, [args[3]])
        raw_memcpy(builder, to, words, args[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), emit


def _splat(builder: Value, value: Value, vector: Value = VECTOR) -> Value:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(VECTOR, None))
