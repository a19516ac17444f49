"""Sixteen 32-bit lanes as a value of compiled code, with the AVX-512 VNNI dot product.

`dot16(sums, weights, inputs)` adds to lane o the products of the four unsigned bytes of `weights[o]` and the four signed bytes of
`inputs[o]`. Signed weights are stored with 128 added; who sums n products subtracts 128 times the sum of their inputs.
Indices are not checked and count int32 elements.
"""

from __future__ import annotations

import os
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.extending import intrinsic, register_model

LANES = 16
_I32 = ir.IntType(32)
_VECTOR = ir.VectorType(_I32, LANES)
_BYTES = ir.VectorType(ir.IntType(8), 4 * LANES)
_DOT = "llvm.x86.avx512.vpdpbusd.512"
_BYTE_OPERANDS_SINCE = 22  # from this version of LLVM the intrinsic's operands are vectors of bytes


def available() -> bool:
    """Whether compiled code may use the instruction: a processor that has it, and no other target asked for."""
    if os.environ.get("VDLA_PORTABLE") or numba.config.CPU_NAME or numba.config.CPU_FEATURES:
        return False
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512vnni") and features.get("avx512bw") and features.get("avx512vl"))


class Lanes(types.Type):  # type: ignore[misc]
    """The type of sixteen int32 lanes in compiled code."""

    def __init__(self) -> None:
        super().__init__(name="int32x16")


@register_model(Lanes)  # type: ignore[untyped-decorator]
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


_LANES = Lanes()


def _pointer(context: Any, builder: Any, signature: Any, args: Any, element: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    address = builder.gep(array.data, [args[1]])
    return builder.bitcast(address, ir.PointerType(element))


@intrinsic  # type: ignore[untyped-decorator]
def load16(typing: Any, array: Any, index: Any) -> Any:
    """The sixteen elements of an int32 array from an index on."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, signature, args, _VECTOR), align=4, typ=_VECTOR)

    return _LANES(array, types.intp), emit


@intrinsic  # type: ignore[untyped-decorator]
def broadcast16(typing: Any, array: Any, index: Any) -> Any:
    """One element of an int32 array in all lanes."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(context, builder, signature, args, _I32), align=4, typ=_I32)
        return _splat(builder, value)

    return _LANES(array, types.intp), emit


@intrinsic  # type: ignore[untyped-decorator]
def store16(typing: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write the lanes to an int32 array from an index on."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, signature, args, _VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), emit


@intrinsic  # type: ignore[untyped-decorator]
def splat16(typing: Any, value: Any) -> Any:
    """The low 32 bits of an integer in all lanes."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, builder.trunc(args[0], _I32))

    return _LANES(types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def add16(typing: Any, a: Any, b: Any) -> Any:
    """The sum of two, lane by lane, wrapping."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(*args)

    return _LANES(_LANES, _LANES), emit


@intrinsic  # type: ignore[untyped-decorator]
def dot16(typing: Any, sums: Any, weights: Any, inputs: Any) -> Any:
    """`sums` plus four unsigned times signed byte products in each lane."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        operand = _BYTES if llvm.llvm_version_info[0] >= _BYTE_OPERANDS_SINCE else _VECTOR
        function = builder.module.globals.get(_DOT)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR, operand, operand]), _DOT)
        return builder.call(function, [args[0], *(builder.bitcast(value, operand) for value in args[1:])])

    return _LANES(_LANES, _LANES, _LANES), emit


def _splat(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_VECTOR, None))
