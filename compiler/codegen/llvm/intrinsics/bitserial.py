"""Bit-serial products: numbers of one or two bits, multiplied plane by plane with AND and a count of ones.

A *plane* holds one bit of many numbers, packed into words along the reduction; bit b of a word belongs to element b of
its group. Unipolar numbers are 0, 1, ... (or two's complement, where the highest plane counts negatively); bipolar ones
have one bit that means -1 or 1. The sums are exact.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.choices import one_of
from vdla.compiler.codegen.llvm.intrinsics.vectors import Builder, Val, call, part, splat, vector
from vdla.compiler.tensorize.intrinsic import MEMORY, Intrinsic

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.step import NativeStep

WORD_BITS = 32
NUMBER_BITS = 8  # of the numbers that planes are taken from


@lru_cache
def unipolar(lanes: int, weight_bits: int, data_bits: int, signed: bool = False) -> Intrinsic:
    """acc[o] += sum over planes p, q and bits b of (w[p, o] bit b) * (x[q] bit b) * 2**(p + q).

    `w` is uint32 of (weight_bits, lanes), `x` uint32 of (data_bits,), `acc` int32 of (lanes,). Of `signed` weights the
    highest plane counts -2**p.
    """
    w = te.placeholder((weight_bits, lanes), "uint32", "w")
    x = te.placeholder((data_bits,), "uint32", "x")
    p, q = te.reduce_axis(weight_bits, "p"), te.reduce_axis(data_bits, "q")
    b = te.reduce_axis(WORD_BITS, "b")

    def value(o: te.Value) -> te.Value:
        return te.sum(product_of(w[p, o], x[q], p, q, b, weight_bits if signed else None), axis=[p, q, b])

    def lower(step: NativeStep) -> None:
        planes = Planes(step.builder, step.load("w"), step.load("x"), lanes)
        step.store("acc", planes.add_to(step.load("acc"), weight_bits, data_bits, signed))

    kind = f"{'s' if signed else 'u'}{weight_bits}u{data_bits}"
    scopes = {"w": MEMORY, "x": MEMORY, "acc": MEMORY}
    return Intrinsic(f"bitserial_{kind}_{lanes}", te.compute((lanes,), value, "acc"), scopes, lower, target="cpu")


@lru_cache
def bipolar(lanes: int) -> Intrinsic:
    """acc[o] += sum over bits b of 1 where w[o] and x agree in bit b, -1 where they differ: XNOR and a count.

    `w` is uint32 of (1, lanes), `x` uint32 of (1,), `acc` int32 of (lanes,).
    """
    w, x = te.placeholder((1, lanes), "uint32", "w"), te.placeholder((1,), "uint32", "x")
    b = te.reduce_axis(WORD_BITS, "b")

    def value(o: te.Value) -> te.Value:
        return te.sum(agreement(w[0, o], x[0], b), axis=b)

    def lower(step: NativeStep) -> None:
        builder, acc = step.builder, step.load("acc")
        differ = ones(builder, builder.xor(step.load("w"), broadcast(builder, step.load("x"), 0, lanes)))
        twice = builder.shl(differ, constant(1, lanes))
        step.store("acc", builder.add(acc, builder.sub(constant(WORD_BITS, lanes), twice)))

    scopes = {"w": MEMORY, "x": MEMORY, "acc": MEMORY}
    return Intrinsic(f"bitserial_bipolar_{lanes}", te.compute((lanes,), value, "acc"), scopes, lower, target="cpu")


@lru_cache
def planes(bits: int) -> Intrinsic:
    """acc[q] += sum over b of bit q of x[b], at place b: numbers taken apart into words of their planes.

    `x` is uint8 of (32,), `acc` uint32 of (bits,).
    """
    one_of("bitserial_planes", "bits", bits, range(1, NUMBER_BITS + 1))
    x = te.placeholder((WORD_BITS,), "uint8", "x")
    b = te.reduce_axis(WORD_BITS, "b")
    acc = te.compute((bits,), lambda q: te.sum(plane_of(x[b], q, b), axis=b), "acc")

    def lower(step: NativeStep) -> None:
        builder, numbers, words = step.builder, step.load("x"), step.load("acc")
        for q in range(bits):
            plane = builder.trunc(
                builder.lshr(numbers, ir.Constant(numbers.type, [q] * WORD_BITS)), vector(1, WORD_BITS)
            )
            place = ir.Constant(ir.IntType(32), q)
            word = builder.add(builder.extract_element(words, place), builder.bitcast(plane, ir.IntType(WORD_BITS)))
            words = builder.insert_element(words, word, place)
        step.store("acc", words)

    return Intrinsic(f"bitserial_planes_{bits}", acc, {"x": MEMORY, "acc": MEMORY}, lower, target="cpu")


# --- what they compute -----------------------------------------------------------------------------------------------


def product_of(
    w: te.Value, x: te.Value, p: te.ReduceAxis, q: te.ReduceAxis, b: te.ReduceAxis, signed_bits: int | None
) -> te.Value:
    """The product of bit `b` of plane `p` of the weights and plane `q` of the data; of weights of `signed_bits` bits in
    two's complement the highest plane counts negatively."""
    both = te.cast("int32", bit(w, b) & bit(x, b)) << (p + q)
    return both if signed_bits is None else te.select(p == signed_bits - 1, -both, both)


def agreement(w: te.Value, x: te.Value, b: te.ReduceAxis) -> te.Value:
    """1 where bit `b` of both words is the same, -1 where not."""
    return te.select(bit(w, b) == bit(x, b), te.const(1, "int32"), te.const(-1, "int32"))


def plane_of(x: te.Value, q: te.Value, b: te.ReduceAxis) -> te.Value:
    """Bit `q` of a uint8, at place `b` of a word."""
    return te.cast("uint32", (x >> te.cast("uint8", q)) & 1) << te.cast("uint32", b)


def bit(word: te.Value, place: te.ReduceAxis) -> te.Value:
    """Bit `place` of a word, 0 or 1."""
    return (word >> te.cast("uint32", place)) & 1


# --- emission --------------------------------------------------------------------------------------------------------


class Planes:
    """The planes of one step, in vectors of `lanes` words."""

    def __init__(self, builder: Builder, w: Val, x: Val, lanes: int) -> None:
        self.builder, self.w, self.x, self.lanes = builder, w, x, lanes

    def add_to(self, acc: Val, weight_bits: int, data_bits: int, signed: bool) -> Val:
        """`acc` with the products of all planes; those of one weight are added before they are shifted."""
        for place in range(weight_bits + data_bits - 1):
            pairs = [(p, place - p) for p in range(weight_bits) if 0 <= place - p < data_bits]
            top = weight_bits - 1 if signed else weight_bits
            plus = [self.product(p, q) for p, q in pairs if p < top]
            minus = [self.product(p, q) for p, q in pairs if p >= top]
            for sums, combine in ((plus, self.builder.add), (minus, self.builder.sub)):
                if sums:
                    acc = combine(acc, self.builder.shl(self.total(sums), constant(place, self.lanes)))
        return acc

    def product(self, p: int, q: int) -> Val:
        """How many bits plane `p` of the weights and plane `q` of the data share, in each lane."""
        plane = part(self.builder, self.w, p * self.lanes, self.lanes)
        return ones(self.builder, self.builder.and_(plane, broadcast(self.builder, self.x, q, self.lanes)))

    def total(self, values: list[Val]) -> Val:
        """The sum of a list that is not empty."""
        first, *rest = values
        for value in rest:
            first = self.builder.add(first, value)
        return first


def ones(builder: Builder, value: Val) -> Val:
    """How many bits of each lane are 1."""
    return call(builder, f"llvm.ctpop.v{value.type.count}i{value.type.element.width}", value.type, value)


def broadcast(builder: Builder, value: Val, place: int, lanes: int) -> Val:
    """One lane in all of `lanes`."""
    return splat(builder, builder.extract_element(value, ir.Constant(ir.IntType(32), place)), lanes)


def constant(value: int, lanes: int) -> Val:
    """An int32 in every lane."""
    return ir.Constant(ir.VectorType(ir.IntType(32), lanes), [value] * lanes)
