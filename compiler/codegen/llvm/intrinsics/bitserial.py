"""Bit-serial products: numbers of one or two bits, multiplied plane by plane with AND and popcount.

A *plane* holds one bit of many numbers, packed into words along the reduction: bit b of a word
belongs to element b of its group. Unipolar numbers are unsigned, or two's complement, whose highest
plane has negative weight; bipolar numbers have one bit, for -1 or 1. The sums are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.vectors import (
    check_choice,
    declared_once,
    extract_lanes,
    vector_type,
)
from vdla.compiler.codegen.llvm.types import Value, broadcast, call_intrinsic, type_suffix
from vdla.compiler.tensorize import MEMORY, Intrinsic

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
        planes = _BitPlanes(emit.builder, emit.load("w"), emit.load("x"), lanes)
        emit.store("acc", planes.add_products(emit.load("acc"), weight_bits, data_bits, signed))

    kind = f"{'s' if signed else 'u'}{weight_bits}u{data_bits}"
    scopes = {"w": MEMORY, "x": MEMORY, "acc": MEMORY}
    return Intrinsic(
        name=f"bitserial_{kind}_{lanes}",
        output=te.compute((lanes,), value, "acc"),
        scopes=scopes,
        lower=lower,
        target="cpu",
    )


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
        builder, acc = emit.builder, emit.load("acc")
        differing = _popcount(builder, builder.xor(emit.load("w"), _broadcast_lane(builder, emit.load("x"), 0, lanes)))
        twice = builder.shl(differing, _int32(1, lanes))
        emit.store("acc", builder.add(acc, builder.sub(_int32(WORD_BITS, lanes), twice)))

    scopes = {"w": MEMORY, "x": MEMORY, "acc": MEMORY}
    return Intrinsic(
        name=f"bitserial_bipolar_{lanes}",
        output=te.compute((lanes,), value, "acc"),
        scopes=scopes,
        lower=lower,
        target="cpu",
    )


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
            lane = ir.Constant(ir.IntType(32), q)
            word = builder.add(builder.extract_element(words, lane), builder.bitcast(plane, ir.IntType(WORD_BITS)))
            words = builder.insert_element(words, word, lane)
        emit.store("acc", words)

    return Intrinsic(
        name=f"bitserial_planes_{bits}", output=acc, scopes={"x": MEMORY, "acc": MEMORY}, lower=lower, target="cpu"
    )


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


class _BitPlanes:
    """The planes of one call: `lanes` words each of the weights, one word each of the data."""

    def __init__(self, builder: Value, w: Value, x: Value, lanes: int) -> None:
        self.builder, self.w, self.x, self.lanes = builder, w, x, lanes

    def add_products(self, acc: Value, weight_bits: int, data_bits: int, signed: bool) -> Value:
        """`acc` plus the products of all planes; products of one significance share a shift."""
        for significance in range(weight_bits + data_bits - 1):
            pairs = [(p, significance - p) for p in range(weight_bits) if 0 <= significance - p < data_bits]
            top = weight_bits - 1 if signed else weight_bits
            plus = [self.product(p, q) for p, q in pairs if p < top]
            minus = [self.product(p, q) for p, q in pairs if p >= top]
            for counts, combine in ((plus, self.builder.add), (minus, self.builder.sub)):
                if counts:
                    acc = combine(acc, self.builder.shl(self.sum(counts), _int32(significance, self.lanes)))
        return acc

    def product(self, p: int, q: int) -> Value:
        """The number of bits set in plane `p` of weights and plane `q` of data, per lane."""
        plane = extract_lanes(self.builder, self.w, p * self.lanes, self.lanes)
        return _popcount(self.builder, self.builder.and_(plane, _broadcast_lane(self.builder, self.x, q, self.lanes)))

    def sum(self, values: list[Value]) -> Value:
        """The sum of a non-empty list."""
        total, *others = values
        for value in others:
            total = self.builder.add(total, value)
        return total


def _popcount(builder: Value, value: Value) -> Value:
    return call_intrinsic(builder, f"llvm.ctpop.{type_suffix(value.type)}", value.type, value)


def _broadcast_lane(builder: Value, value: Value, lane: int, lanes: int) -> Value:
    return broadcast(builder, builder.extract_element(value, ir.Constant(ir.IntType(32), lane)), lanes)


def _int32(value: int, lanes: int) -> Value:
    """An int32 in every lane."""
    return ir.Constant(ir.VectorType(ir.IntType(32), lanes), [value] * lanes)
