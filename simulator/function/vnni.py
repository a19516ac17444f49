# SPDX-License-Identifier: Apache-2.0
"""Sixteen int32 lanes as a value of compiled code, with the AVX-512 VNNI dot product.

`dot16(sums, weights, inputs)` adds to lane o the products of the four unsigned bytes of
`weights[o]` and the four signed bytes of `inputs[o]`. Signed weights are stored with 128 added: the
caller subtracts 128 times the sum of the inputs. Indices are in int32 elements and are not checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numba  # first, since it is what a user must install where either is missing

# isort: split
import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import raw_memcpy
from numba.core.datamodel import models
from numba.core.extending import intrinsic, register_model

LANES = 16
Value = Any  # Numba's and llvmlite's objects, which have no types

_I32 = ir.IntType(32)
_VECTOR = ir.VectorType(_I32, LANES)
_ENTRY = 4 * LANES
_BYTES = ir.VectorType(ir.IntType(8), 4 * LANES)
_DOT = "llvm.x86.avx512.vpdpbusd.512"
_BYTE_OPERANDS_SINCE = 22  # since this version of LLVM the operands are byte vectors


def available() -> bool:
    """Whether the processor has AVX-512 VNNI and no other target is requested."""
    targets = [getattr(numba.config, name, None) for name in ("CPU_NAME", "CPU_FEATURES")]
    if os.environ.get("VDLA_PORTABLE") or any(targets):
        return False
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512vnni") and features.get("avx512bw") and features.get("avx512vl"))


class _Int32x16(types.Type):
    """Numba's type of sixteen int32 lanes."""

    def __init__(self) -> None:
        super().__init__(name="int32x16")


@register_model(_Int32x16)
class _Int32x16Model(models.PrimitiveModel):
    def __init__(self, manager: Value, kind: Value) -> None:
        super().__init__(manager, kind, _VECTOR)  # type: ignore[no-untyped-call]


_INT32X16 = _Int32x16()


def _operation(function: Callable[..., Value]) -> Value:
    """An intrinsic, typed as compiled code calls it: without the typing argument."""
    return intrinsic(function)


def _pointer(context: Value, builder: Value, signature: Value, args: Value, element: Value) -> Value:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    address = builder.gep(array.data, [args[1]])
    return builder.bitcast(address, ir.PointerType(element))


@_operation
def load16(typing: Value, array: Value, index: Value) -> Value:
    """The sixteen elements of an int32 array from an index on."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        return builder.load(_pointer(context, builder, signature, args, _VECTOR), align=4, typ=_VECTOR)

    return _INT32X16(array, types.intp), emit


@_operation
def broadcast16(typing: Value, array: Value, index: Value) -> Value:
    """One element of an int32 array in all lanes."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        value = builder.load(_pointer(context, builder, signature, args, _I32), align=4, typ=_I32)
        return _splat(builder, value)

    return _INT32X16(array, types.intp), emit


@_operation
def store16(typing: Value, array: Value, index: Value, lanes: Value) -> Value:
    """Write the lanes to an int32 array from an index on."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        builder.store(args[2], _pointer(context, builder, signature, args, _VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _INT32X16), emit


@_operation
def splat16(typing: Value, value: Value) -> Value:
    """The low 32 bits of an integer in all lanes."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        return _splat(builder, builder.trunc(args[0], _I32))

    return _INT32X16(types.int64), emit


@_operation
def add16(typing: Value, a: Value, b: Value) -> Value:
    """The lane-wise sum, wrapping."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        return builder.add(*args)

    return _INT32X16(_INT32X16, _INT32X16), emit


@_operation
def requantise16(
    typing: Value, sums: Value, scales: Value, index: Value, zero: Value, low: Value, high: Value, out: Value,
    place: Value,
) -> Value:  # fmt: skip
    """Write the sums, requantised with sixteen packed scales from an index on, as bytes; on any
    processor. They are rounded half to even, as `fixed_point` says.
    """

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        sums, scales, index, zero, low, high, out, place = args
        kinds = signature.args
        wide, narrow = ir.VectorType(ir.IntType(64), LANES), ir.VectorType(ir.IntType(8), LANES)

        def const(value: int) -> Value:
            return ir.Constant(wide, [value] * LANES)

        def lanes(value: Value) -> Value:
            return _splat(builder, value, wide)

        source = context.make_array(kinds[1])(context, builder, scales)
        packed = builder.load(
            builder.bitcast(builder.gep(source.data, [index]), ir.PointerType(wide)), align=8, typ=wide
        )
        biased = builder.sext(builder.add(sums, builder.trunc(packed, _VECTOR)), wide)
        value = builder.mul(biased, builder.and_(builder.lshr(packed, const(32)), const(0xFFFFFF)))
        shift = builder.and_(builder.lshr(packed, const(56)), const(63))
        odd = builder.and_(builder.ashr(value, shift), const(1))
        half = builder.add(builder.sub(builder.lshr(builder.shl(const(1), shift), const(1)), const(1)), odd)
        half = builder.select(builder.icmp_signed("==", shift, const(0)), const(0), half)
        value = builder.add(builder.ashr(builder.add(value, half), shift), lanes(zero))
        value = builder.select(builder.icmp_signed("<", value, lanes(low)), lanes(low), value)
        value = builder.select(builder.icmp_signed(">", value, lanes(high)), lanes(high), value)
        target = context.make_array(kinds[6])(context, builder, out)
        pointer = builder.bitcast(builder.gep(target.data, [place]), ir.PointerType(narrow))
        builder.store(builder.trunc(value, narrow), pointer, align=1)
        return context.get_dummy_value()

    return types.void(_INT32X16, scales, types.intp, *[types.int64] * 3, out, types.intp), emit


@_operation
def widen16(typing: Value, array: Value, index: Value) -> Value:
    """The sixteen elements of an int8 array from an index on, in int32 lanes; on any processor."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        narrow = ir.VectorType(ir.IntType(8), LANES)
        elements = builder.load(_pointer(context, builder, signature, args, narrow), align=1, typ=narrow)
        return builder.sext(elements, _VECTOR)

    return _INT32X16(array, types.intp), emit


@_operation
def multiply_add16(typing: Value, sums: Value, a: Value, b: Value) -> Value:
    """`sums + a * b` in each lane, wrapping; on any processor."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        return builder.add(args[0], builder.mul(*args[1:]))

    return _INT32X16(_INT32X16, _INT32X16, _INT32X16), emit


@_operation
def dot16(typing: Value, sums: Value, weights: Value, inputs: Value) -> Value:
    """`sums` plus four products of unsigned and signed bytes in each lane."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        operand = _BYTES if llvm.llvm_version_info[0] >= _BYTE_OPERANDS_SINCE else _VECTOR
        function = builder.module.globals.get(_DOT)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR, operand, operand]), _DOT)
        return builder.call(function, [args[0], *(builder.bitcast(value, operand) for value in args[1:])])

    return _INT32X16(_INT32X16, _INT32X16, _INT32X16), emit


@_operation
def interleave64(typing: Value, source: Value, index: Value, target: Value, place: Value) -> Value:
    """Write [16, 4] int32 from an index of `source` as [4, 16] to `target`.

    The top bit of each byte is flipped.
    """

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        wide = ir.VectorType(_I32, _ENTRY)
        array = context.make_array(signature.args[0])(context, builder, args[0])
        words = builder.bitcast(builder.gep(array.data, [args[1]]), ir.PointerType(wide))
        value = builder.load(words, align=4, typ=wide)
        order = [lane * 4 + group for group in range(4) for lane in range(LANES)]
        moved = builder.shuffle_vector(value, ir.Constant(wide, ir.Undefined), _indices(order))
        flipped = builder.xor(moved, ir.Constant(wide, [-0x7F7F7F80] * _ENTRY))
        into = context.make_array(signature.args[2])(context, builder, args[2])
        builder.store(flipped, builder.bitcast(builder.gep(into.data, [args[3]]), ir.PointerType(wide)), align=4)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), emit


@_operation
def copy_bytes(typing: Value, target: Value, at: Value, source: Value, start: Value, count: Value) -> Value:
    """Copy bytes from one array to another, which do not overlap."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        into = context.make_array(signature.args[0])(context, builder, args[0])
        array = context.make_array(signature.args[2])(context, builder, args[2])
        to, words = builder.gep(into.data, [args[1]]), builder.gep(array.data, [args[3]])
        raw_memcpy(builder, to, words, args[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), emit


def _indices(values: list[int]) -> Value:
    return ir.Constant(ir.VectorType(_I32, len(values)), values)


def _splat(builder: Value, value: Value, vector: Value = _VECTOR) -> Value:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_VECTOR, None))
