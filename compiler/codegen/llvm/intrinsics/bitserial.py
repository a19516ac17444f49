# SPDX-License-Identifier: Apache-2.0
"""Bit-serial products: numbers of one or two bits, multiplied plane by plane with AND and popcount.

A *plane* holds one bit of many numbers, packed into words along the reduction: bit b of a word
belongs to element b of its group. Unipolar numbers are unsigned, or two's complement, whose highest
plane has negative weight; bipolar numbers have one bit, for -1 or 1. The sums are exact.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.vectors import check_choice, cpu_intrinsic, declared_once, vector_type
from vdla.compiler.codegen.llvm.numbers import Number
from vdla.compiler.codegen.llvm.types import I32, broadcast, poison, shuffle_mask
from vdla.compiler.tensorize import Intrinsic

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter

WORD_BITS = 32
_NUMBER_BITS = 8  # of the numbers whose planes are extracted


@declared_once
def unipolar(lanes: int, weight_bits: int, data_bits: int, signed: bool = False) -> Intrinsic:
    """acc[o] += sum over planes p, q and bits b of (w[p, o] bit b) * (x[q] bit b) * 2**(p + q).

    `w` is uint32 of (weight_bits, lanes), `x` uint32 of (data_bits,), `acc` int32 of (lanes,).
    The highest plane of `signed` weights has the weight -2**p.
    """
    w = te.placeholder((weight_bits, lanes), "uint32", "w")
    x = te.placeholder((data_bits,), "uint32", "x")
    p, q = te.reduce_axis(weight_bits, "p"), te.reduce_axis(data_bits, "q")
    b = te.reduce_axis(WORD_BITS, "b")

    def value(o: te.Value) -> te.Value:
        return te.sum(bit_product(w[p, o], x[q], p, q, b, weight_bits if signed else None), axis=[p, q, b])

    def lower(emit: IntrinsicEmitter) -> None:
        words, data, acc = (Number(emit.builder, emit.load(operand)) for operand in ("w", "x", "acc"))
        emit.store("acc", _add_products(acc, words, data, lanes, (weight_bits, data_bits), signed).value)

    kind = f"{'s' if signed else 'u'}{weight_bits}u{data_bits}"
    return cpu_intrinsic(f"bitserial_{kind}_{lanes}", te.compute((lanes,), value, "acc"), lower)


@declared_once
def bipolar(lanes: int) -> Intrinsic:
    """acc[o] += sum over bits b of 1 if w[o] and x agree in bit b, else -1: XNOR and popcount.

    `w` is uint32 of shape (1, lanes), `x` uint32 of (1,), `acc` int32 of (lanes,).
    """
    w, x = te.placeholder((1, lanes), "uint32", "w"), te.placeholder((1,), "uint32", "x")
    b = te.reduce_axis(WORD_BITS, "b")

    def value(o: te.Value) -> te.Value:
        return te.sum(bit_agreement(w[0, o], x[0], b), axis=b)

    def lower(emit: IntrinsicEmitter) -> None:
        acc, words, data = (Number(emit.builder, emit.load(operand)) for operand in ("acc", "w", "x"))
        differing = (words ^ _in_all_lanes(data, 0, lanes)).call("ctpop")
        emit.store("acc", (acc + (WORD_BITS - (differing << 1))).value)

    return cpu_intrinsic(f"bitserial_bipolar_{lanes}", te.compute((lanes,), value, "acc"), lower)


@declared_once
def planes(bits: int) -> Intrinsic:
    """acc[q] += sum over b of (bit q of x[b]) << b: extracts the planes of 32 numbers.

    `x` is uint8 of shape (32,), `acc` uint32 of (bits,).
    """
    check_choice("bitserial_planes", "bits", bits, range(1, _NUMBER_BITS + 1))
    x = te.placeholder((WORD_BITS,), "uint8", "x")
    b = te.reduce_axis(WORD_BITS, "b")
    acc = te.compute((bits,), lambda q: te.sum(plane_bit(x[b], q, b), axis=b), "acc")

    def lower(emit: IntrinsicEmitter) -> None:
        builder, numbers, words = emit.builder, emit.load("x"), emit.load("acc")
        for q in range(bits):
            shifted = builder.lshr(numbers, ir.Constant(numbers.type, [q] * WORD_BITS))
            plane = builder.trunc(shifted, vector_type(1, WORD_BITS))
            lane = I32(q)
            word = builder.add(builder.extract_element(words, lane), builder.bitcast(plane, I32))
            words = builder.insert_element(words, word, lane)
        emit.store("acc", words)

    return cpu_intrinsic(f"bitserial_planes_{bits}", acc, lower)


# --- tensor expressions ---------------------------------------------------------------------------


def bit_product(
    w: te.Value, x: te.Value, p: te.ReduceAxis, q: te.ReduceAxis, b: te.ReduceAxis, signed_bits: int | None
) -> te.Value:
    """(bit `b` of plane `p` of the weights) * (bit `b` of plane `q` of the data) * 2**(p + q).

    With `signed_bits`, weights are in two's complement: the highest plane is negative.
    """
    both = te.cast("int32", _bit(w, b) & _bit(x, b)) << (p + q)
    return both if signed_bits is None else te.select(p == signed_bits - 1, -both, both)


def bit_agreement(w: te.Value, x: te.Value, b: te.ReduceAxis) -> te.Value:
    """1 if bit `b` of both words is the same, else -1."""
    return te.select(_bit(w, b) == _bit(x, b), te.const(1, "int32"), te.const(-1, "int32"))


def plane_bit(x: te.Value, q: te.Value, b: te.ReduceAxis) -> te.Value:
    """Bit `q` of a uint8, moved to bit `b` of a word."""
    return te.cast("uint32", (x >> te.cast("uint8", q)) & 1) << te.cast("uint32", b)


def _bit(word: te.Value, b: te.ReduceAxis) -> te.Value:
    """Bit `b` of a word, 0 or 1."""
    return (word >> te.cast("uint32", b)) & 1


# --- emission -------------------------------------------------------------------------------------


def _add_products(acc: Number, w: Number, x: Number, lanes: int, bits: tuple[int, int], signed: bool) -> Number:
    """`acc` plus the products of all planes of weights and data, which have `bits`; products of one
    significance share a shift."""
    for significance in range(sum(bits) - 1):
        pairs = [(p, significance - p) for p in range(bits[0]) if 0 <= significance - p < bits[1]]
        top = bits[0] - 1 if signed else bits[0]
        plus, minus = (
            [_product(w, x, lanes, p, q) for p, q in pairs if (p >= top) == negative] for negative in (False, True)
        )
        if plus:
            acc = acc + (reduce(add, plus) << significance)
        if minus:
            acc = acc - (reduce(add, minus) << significance)
    return acc


def _product(w: Number, x: Number, lanes: int, p: int, q: int) -> Number:
    """The number of bits set in plane `p` of weights and plane `q` of data, per lane."""
    mask = shuffle_mask(tuple(range(p * lanes, (p + 1) * lanes)))
    plane = Number(w.builder, w.builder.shuffle_vector(w.value, poison(w.kind), mask))
    return (plane & _in_all_lanes(x, q, lanes)).call("ctpop")


def _in_all_lanes(x: Number, lane: int, lanes: int) -> Number:
    """A lane of a vector in each of `lanes`."""
    return Number(x.builder, broadcast(x.builder, x.builder.extract_element(x.value, I32(lane)), lanes))
