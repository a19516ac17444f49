# SPDX-License-Identifier: Apache-2.0
"""The dot product of the processor, on lanes, and the order of operands that it needs.

`dot16(sums, weights, inputs)` adds to each lane the products of GROUP weights and GROUP inputs.

| unit | operands of a lane | where |
|---|---|---|
| `vnni` | four bytes, weights unsigned | AVX-512 VNNI |
| `pairs` | two 16-bit numbers | AVX2, AVX-512; in plain operations elsewhere |

Signed weights become unsigned with 128 added: the kernels subtract 128 times the sum of the inputs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numba
import numpy as np

# isort: split
import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types

from vdla.simulator.function.lanes import I32, INT32X16, LANES, VECTOR, Value, operation
from vdla.support.arrays import Array

_I16 = ir.IntType(16)
_ROWS, _BYTES = 16, 16  # of a block of weights whose order a few instructions change


def _features() -> dict[str, bool]:
    """What the processor for which Numba compiles has; nothing where only its name is known."""
    requested = getattr(numba.config, "CPU_FEATURES", None)
    if requested:
        return {name[1:]: name.startswith("+") for name in requested.split(",")}
    return {} if getattr(numba.config, "CPU_NAME", None) else dict(llvm.get_host_cpu_features())


def available() -> bool:
    """Whether kernels on lanes are wanted."""
    return not os.environ.get("VDLA_PORTABLE")


_FEATURES = _features()
VNNI = all(_FEATURES.get(name) for name in ("avx512vnni", "avx512bw", "avx512vl"))
UNIT = "AVX-512 VNNI" if VNNI else "AVX2" if _FEATURES.get("avx2") else "16-bit products"
GROUP = 4 if VNNI else 2
FLIP = 0x80808080 if VNNI else 0
"""What is added to weights, a byte each."""


def interleave(weights: Array) -> Array:
    """Interleave int8 `[n, block_out, block_in]` to int32 `[n, block_out / 16, block_in / GROUP,
    16]`.

    Each element has GROUP weights: four unsigned bytes with 128 added, or two 16-bit numbers.
    """
    n, block_out, block_in = weights.shape
    plain = np.ascontiguousarray(weights) if VNNI else weights.astype(np.int16, order="C")
    tiles = plain.view(np.uint32).reshape(n, block_out // LANES, LANES, block_in // GROUP).transpose(0, 1, 3, 2)
    return np.bitwise_xor(tiles, np.uint32(FLIP), order="C").view(np.int32)


# --- the product


def _called(builder: Value, name: str, result: Value, args: list[Value]) -> Value:
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [arg.type for arg in args]), name)
    return builder.call(function, args)


def _byte_dot(builder: Value, sums: Value, weights: Value, inputs: Value) -> Value:
    """The instruction of AVX-512 VNNI, whose operands are bytes since LLVM 22."""
    operand = ir.VectorType(ir.IntType(8), 4 * LANES) if llvm.llvm_version_info[0] >= 22 else VECTOR
    operands = [builder.bitcast(value, operand) for value in (weights, inputs)]
    return _called(builder, "llvm.x86.avx512.vpdpbusd.512", VECTOR, [sums, *operands])


def _pair_dot(builder: Value, sums: Value, weights: Value, inputs: Value) -> Value:
    pairs = ir.VectorType(_I16, 2 * LANES)
    operands = [builder.bitcast(value, pairs) for value in (weights, inputs)]
    if _FEATURES.get("avx512bw"):
        return builder.add(sums, _called(builder, "llvm.x86.avx512.pmaddw.d.512", VECTOR, operands))
    if _FEATURES.get("avx2"):
        halves = [_half_dot(builder, sums, operands, first) for first in (0, LANES // 2)]
        return _selected(builder, halves[0], range(LANES), halves[1])
    return builder.add(sums, _plain_pairs(builder, *operands))


def _half_dot(builder: Value, sums: Value, operands: list[Value], first: int) -> Value:
    """Eight lanes of the sum, by instructions of AVX2.

    LLVM does not look into the empty assembly; it would add the products of several groups first,
    for which there are too few registers.
    """
    half = ir.VectorType(I32, LANES // 2)
    parts = [_selected(builder, value, range(2 * first, 2 * first + LANES)) for value in operands]
    products = _called(builder, "llvm.x86.avx2.pmadd.wd", half, parts)
    result = builder.add(_selected(builder, sums, range(first, first + LANES // 2)), products)
    return builder.asm(ir.FunctionType(half, [half]), "", "=x,0", [result], False)


def _plain_pairs(builder: Value, weights: Value, inputs: Value) -> Value:
    """Sums of two products of 16-bit numbers each."""
    products = []
    for first in (0, 1):
        order = range(first, 2 * LANES, 2)
        a, b = (builder.sext(_selected(builder, value, order), VECTOR) for value in (weights, inputs))
        products.append(builder.mul(a, b))
    return builder.add(*products)


@operation
def dot16(typing: Value, sums: Value, weights: Value, inputs: Value) -> Value:
    """`sums` plus GROUP products of weights and inputs in each lane."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        return (_byte_dot if VNNI else _pair_dot)(builder, *args)

    return INT32X16(INT32X16, INT32X16, INT32X16), emit


# --- the order of weights


@operation
def interleave_block(typing: Value, source: Value, index: Value, target: Value, place: Value) -> Value:
    """Write 16 rows of 16 bytes from an index of an array of bytes as `interleave` orders them."""

    def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
        arrays = [context.make_array(signature.args[n])(context, builder, args[n]) for n in (0, 2)]
        source, target = (builder.gep(array.data, [args[n]]) for array, n in zip(arrays, (1, 3), strict=True))
        (_interleave_bytes if VNNI else _interleave_pairs)(builder, source, target)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), emit


def _interleave_bytes(builder: Value, source: Value, target: Value) -> None:
    """[16, 4] int32 as [4, 16], the top bit of each byte flipped."""
    wide = ir.VectorType(I32, _ROWS * _BYTES // 4)
    value = builder.load(builder.bitcast(source, ir.PointerType(wide)), align=1, typ=wide)
    moved = _selected(builder, value, [lane * 4 + group for group in range(4) for lane in range(LANES)])
    flipped = builder.xor(moved, ir.Constant(wide, [-0x7F7F7F80] * wide.count))
    builder.store(flipped, builder.bitcast(target, ir.PointerType(wide)), align=4)


def _interleave_pairs(builder: Value, source: Value, target: Value) -> None:
    """[16, 8] pairs of bytes as [8, 16] pairs of 16-bit numbers.

    A register has a row and the eighth after it. Each pass rotates the bits of the position (row,
    column) by one, so that three transpose both halves.
    """
    row = ir.VectorType(_I16, _BYTES // 2)
    rows = [_loaded(builder, source, row, r) for r in range(_ROWS)]
    vectors = [_selected(builder, rows[r], range(16), rows[r + 8]) for r in range(8)]
    for _ in range(3):
        vectors = [_unpacked(builder, vectors[r], vectors[r + 4], at) for r in range(4) for at in (0, 4)]
    for group, vector in enumerate(vectors):
        value = builder.sext(builder.bitcast(vector, ir.VectorType(ir.IntType(8), 32)), ir.VectorType(_I16, 32))
        place = builder.gep(target, [ir.Constant(I32, group * LANES)])
        builder.store(builder.bitcast(value, VECTOR), builder.bitcast(place, ir.PointerType(VECTOR)), align=4)


def _loaded(builder: Value, source: Value, kind: Value, number: int) -> Value:
    address = builder.gep(source, [ir.Constant(I32, number * _BYTES)])
    return builder.load(builder.bitcast(address, ir.PointerType(kind)), align=1, typ=kind)


def _unpacked(builder: Value, a: Value, b: Value, at: int) -> Value:
    """Four elements from `at` on of both vectors in turn, in each half of eight."""
    order = [half + at + n + side for half in (0, 8) for n in range(4) for side in (0, 16)]
    return _selected(builder, a, order, b)


def _selected(builder: Value, value: Value, order: Sequence[int], other: Value | None = None) -> Value:
    """The elements of a vector, or of two one after the other, in an order."""
    indices = ir.Constant(ir.VectorType(I32, len(order)), list(order))
    return builder.shuffle_vector(value, other or ir.Constant(value.type, ir.Undefined), indices)
