"""Dot products of small groups, the heart of integer convolutions: acc[o] += sum over i of x[i] * w[o, i], in int32.

One group of activations meets the weights of several outputs, which lie output by output; or, with `Lanes.DATA`, one
group of weights meets the activations of several outputs: acc[o] += sum over i of x[o, i] * w[i]. The sums are exact:
products are never narrower than they need to be, and int32 wraps as the expression does. Each function gives the
intrinsic of one instruction set, `best_dot` the one that a CPU runs fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.choices import one_of
from vdla.compiler.codegen.llvm.intrinsics.vectors import Builder, Val, call, repeated, splat, vector
from vdla.compiler.target import Target, architecture_of
from vdla.compiler.tensorize.intrinsic import MEMORY, Intrinsic

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.step import NativeStep

Emit = Callable[[Builder, Val, Val, Val], Val]  # (builder, acc, x, w) -> the new acc; x and w in all lanes


class Lanes(Enum):
    """Which operand differs from lane to lane; the other one is one group for all of them."""

    WEIGHTS = "weights"
    DATA = "data"


def declare(
    name: str, lanes: int, group: int, dtypes: tuple[str, str], requires: tuple[str, ...], side: Lanes, emit: Emit
) -> Intrinsic:
    """A dot product over `group` activations for `lanes` outputs; `dtypes` are those of the activations and weights."""
    one_of(name, "side", side, Lanes)
    shapes = {Lanes.WEIGHTS: ((group,), (lanes, group)), Lanes.DATA: ((lanes, group), (group,))}[side]
    x, w = te.placeholder(shapes[0], dtypes[0], "x"), te.placeholder(shapes[1], dtypes[1], "w")
    i = te.reduce_axis(group, "i")

    def value(o: te.Value) -> te.Value:
        left, right = (x[i], w[o, i]) if side is Lanes.WEIGHTS else (x[o, i], w[i])
        return te.sum(te.cast("int32", left) * te.cast("int32", right), axis=i)

    def lower(step: NativeStep) -> None:
        operands = [in_all_lanes(step.builder, step.load(operand), lanes, group) for operand in ("x", "w")]
        step.store("acc", emit(step.builder, step.load("acc"), *operands))

    scopes = {"x": MEMORY, "w": MEMORY, "acc": MEMORY}
    full = name if side is Lanes.WEIGHTS else f"{name}_data"
    return Intrinsic(full, te.compute((lanes,), value, "acc"), scopes, lower, target="cpu", requires=requires)


def in_all_lanes(builder: Builder, value: Val, lanes: int, group: int) -> Val:
    """An operand for every lane: one group is repeated."""
    kind = ir.VectorType(value.type.element, lanes * group)
    return value if value.type == kind else builder.bitcast(repeated(builder, value, lanes), kind)


# --- x86-64 ----------------------------------------------------------------------------------------------------------

WIDTHS = {16: ("avx512f",), 8: ("avx512vl",), 4: ("avx512vl",)}
AVX_WIDTHS = (8, 4)


@lru_cache
def vnni(lanes: int = 16, side: Lanes = Lanes.WEIGHTS) -> Intrinsic:
    """Four uint8 by four int8 in each of 16, 8 or 4 lanes: vpdpbusd."""
    one_of("vnni", "lanes", lanes, WIDTHS)
    return _vnni(f"vnni_{lanes}", "vpdpbusd", lanes, 4, ("uint8", "int8"), ("avx512vnni", *WIDTHS[lanes]), side)


@lru_cache
def avx_vnni(lanes: int = 8, side: Lanes = Lanes.WEIGHTS) -> Intrinsic:
    """The same in 8 or 4 lanes, on CPUs that have VNNI but not AVX-512."""
    one_of("avx_vnni", "lanes", lanes, AVX_WIDTHS)
    return _vnni(f"avx_vnni_{lanes}", "vpdpbusd", lanes, 4, ("uint8", "int8"), ("avxvnni",), side)


@lru_cache
def vnni_pairs(lanes: int = 16, side: Lanes = Lanes.WEIGHTS) -> Intrinsic:
    """Two int16 by two int16 in each of 16, 8 or 4 lanes: vpdpwssd."""
    one_of("vnni_pairs", "lanes", lanes, WIDTHS)
    return _vnni(f"vnni_pairs_{lanes}", "vpdpwssd", lanes, 2, ("int16", "int16"), ("avx512vnni", *WIDTHS[lanes]), side)


def _vnni(
    name: str,
    instruction: str,
    lanes: int,
    group: int,
    dtypes: tuple[str, str],
    requires: tuple[str, ...],
    side: Lanes,
) -> Intrinsic:
    """One of the VNNI instructions; LLVM chooses the encoding by the features."""

    def emit(builder: Builder, acc: Val, x: Val, w: Val) -> Val:
        words = (builder.bitcast(operand, acc.type) for operand in (x, w))
        return call(builder, f"llvm.x86.avx512.{instruction}.{lanes * 32}", acc.type, acc, *words)

    return declare(name, lanes, group, dtypes, requires, side, emit)


MADD = {
    16: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
    8: ("avx2", "llvm.x86.avx2.pmadd.wd"),
    4: ("sse2", "llvm.x86.sse2.pmadd.wd"),
}


@lru_cache
def madd(lanes: int = 8, side: Lanes = Lanes.WEIGHTS) -> Intrinsic:
    """Two int16 by two int16 in each of 16, 8 or 4 lanes, without VNNI: pmaddwd and an addition."""
    one_of("madd", "lanes", lanes, MADD)
    feature, name = MADD[lanes]

    def emit(builder: Builder, acc: Val, x: Val, w: Val) -> Val:
        return builder.add(acc, call(builder, name, acc.type, x, w))

    return declare(f"madd_{lanes}", lanes, 2, ("int16", "int16"), (feature,), side, emit)


NARROW = ("int4", "int2")


@lru_cache
def maddubs(weights: str = "int4") -> Intrinsic:
    """Four uint8 by four int4 (or int2) in each of 8 lanes with AVX2: pmaddubsw and pmaddwd.

    pmaddubsw adds two products in int16 and saturates, so that it is exact only where weights have few bits: of two
    products of a uint8 and an int4 the sum is at most 2 * 255 * 8.
    """
    one_of("maddubs", "weights", weights, NARROW)

    def emit(builder: Builder, acc: Val, x: Val, w: Val) -> Val:
        pairs = call(builder, "llvm.x86.avx2.pmadd.ub.sw", vector(16, 16), x, w)
        ones = splat(builder, ir.Constant(ir.IntType(16), 1), 16)
        return builder.add(acc, call(builder, "llvm.x86.avx2.pmadd.wd", acc.type, pairs, ones))

    return declare(f"maddubs_{weights}", 8, 4, ("uint8", weights), ("avx2",), Lanes.WEIGHTS, emit)


# --- Arm -------------------------------------------------------------------------------------------------------------


@lru_cache
def neon_pairs(side: Lanes = Lanes.WEIGHTS) -> Intrinsic:
    """Two int8 by two int8 in each of 4 lanes, on 32-bit Arm and AArch64: smull, and sadalp, which adds neighbours."""

    def emit(builder: Builder, acc: Val, x: Val, w: Val) -> Val:
        products = builder.mul(*(builder.sext(operand, vector(16, 8)) for operand in (x, w)))
        if architecture_of(builder.module.triple) == "aarch64":
            return builder.add(acc, call(builder, "llvm.aarch64.neon.saddlp.v4i32.v8i16", acc.type, products))
        return call(builder, "llvm.arm.neon.vpadals.v4i32.v8i16", acc.type, acc, products)

    return declare("neon_pairs", 4, 2, ("int8", "int8"), ("neon",), side, emit)


@lru_cache
def neon_mac(side: Lanes = Lanes.WEIGHTS) -> Intrinsic:
    """One int16 by one int16 in each of 4 lanes: vmlal.s16, smlal."""

    def emit(builder: Builder, acc: Val, x: Val, w: Val) -> Val:
        return builder.add(acc, builder.mul(*(builder.sext(operand, acc.type) for operand in (x, w))))

    return declare("neon_mac", 4, 1, ("int16", "int16"), ("neon",), side, emit)


@lru_cache
def neon_dot(side: Lanes = Lanes.WEIGHTS) -> Intrinsic:
    """Four int8 by four int8 in each of 4 lanes, on Arms with dot products: sdot."""

    def emit(builder: Builder, acc: Val, x: Val, w: Val) -> Val:
        name = f"llvm.{architecture_of(builder.module.triple)}.neon.sdot.v4i32.v16i8"
        return call(builder, name, acc.type, acc, x, w)

    return declare("neon_dot", 4, 4, ("int8", "int8"), ("neon", "dotprod"), side, emit)


# --- choosing --------------------------------------------------------------------------------------------------------


def best_dot(target: Target) -> Intrinsic:
    """The dot product with which `target` convolves integers fastest; a CPU that has none runs its behaviour."""
    return next((intrinsic for intrinsic in fastest_first() if target.has(*intrinsic.requires)), madd(4))


def dot_of(target: Target, lanes: int, group: int, data: str) -> Intrinsic:
    """The dot product of operands that are laid out already: one that `target` has, or else runs the behaviour of."""
    fitting = [dot for dot in fastest_first() if layout(dot) == (lanes, group, data)]
    return next((dot for dot in fitting if target.has(*dot.requires)), fitting[0])


def fastest_first() -> tuple[Intrinsic, ...]:
    """What integers are convolved with."""
    return (vnni(16), vnni(8), avx_vnni(8), madd(16), madd(8), madd(4), neon_dot(), neon_pairs())


def layout(dot: Intrinsic) -> tuple[int, int, str]:
    """The lanes, the group and the dtype of the data."""
    lanes, group = dot.behaviour.buffers["w"].dims
    return lanes, group, dot.behaviour.buffers["x"].dtype
