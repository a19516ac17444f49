# SPDX-License-Identifier: Apache-2.0
"""Dot products of short groups, the inner step of integer convolutions, accumulated in int32.

acc[o] += sum over i of x[i] * w[o, i]: one group of data, broadcast, meets the weights of several
outputs, stored output by output. With `LaneOperand.DATA`, one group of weights meets the data of
several outputs: acc[o] += sum over i of x[o, i] * w[i]. The sums are exact and wrap as int32. Each
function declares the intrinsic of one instruction set; `best_dot` is the fastest one of a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.vectors import (
    check_choice,
    cpu_intrinsic,
    declared_once,
    require_target,
    splat_group,
    vector_type,
)
from vdla.compiler.codegen.llvm.types import Value, broadcast, call_intrinsic
from vdla.compiler.target import Target, architecture_of
from vdla.compiler.tensorize import Intrinsic, IntrinsicError

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter

_Emit = Callable[[Value, Value, Value, Value], Value]  # (builder, acc, x, w) -> new acc; x and w fill all lanes


class LaneOperand(Enum):
    """The operand with one group per lane; the other one is broadcast to all lanes."""

    WEIGHTS = "weights"
    DATA = "data"


def _declare(
    name: str,
    lanes: int,
    group: int,
    dtypes: tuple[str, str],
    requires: tuple[str, ...],
    side: LaneOperand,
    emit_step: _Emit,
) -> Intrinsic:
    """A dot product of `group` terms for `lanes` outputs; `dtypes` of data and weights."""
    check_choice(name, "side", side, LaneOperand)
    shapes = {LaneOperand.WEIGHTS: ((group,), (lanes, group)), LaneOperand.DATA: ((lanes, group), (group,))}[side]
    x, w = te.placeholder(shapes[0], dtypes[0], "x"), te.placeholder(shapes[1], dtypes[1], "w")
    i = te.reduce_axis(group, "i")

    def value(o: te.Value) -> te.Value:
        left, right = (x[i], w[o, i]) if side is LaneOperand.WEIGHTS else (x[o, i], w[i])
        return te.sum(te.cast("int32", left) * te.cast("int32", right), axis=i)

    def lower(emit: IntrinsicEmitter) -> None:
        operands = [_to_all_lanes(emit.builder, emit.load(operand), lanes, group) for operand in ("x", "w")]
        emit.store("acc", emit_step(emit.builder, emit.load("acc"), *operands))

    full = name if side is LaneOperand.WEIGHTS else f"{name}_data"
    return cpu_intrinsic(full, te.compute((lanes,), value, "acc"), lower, requires)


def _to_all_lanes(builder: Value, value: Value, lanes: int, group: int) -> Value:
    """An operand with a group per lane; a single group is broadcast."""
    kind = ir.VectorType(value.type.element, lanes * group)
    return value if value.type == kind else builder.bitcast(splat_group(builder, value, lanes), kind)


# --- x86-64 ---------------------------------------------------------------------------------------

_WIDTHS = {16: ("avx512f",), 8: ("avx512vl",), 4: ("avx512vl",)}
_AVX_WIDTHS = (8, 4)


@declared_once
def vnni(lanes: int = 16, side: LaneOperand = LaneOperand.WEIGHTS) -> Intrinsic:
    """Four uint8 by four int8 in each of 16, 8 or 4 lanes: vpdpbusd."""
    check_choice("vnni", "lanes", lanes, _WIDTHS)
    return _vnni(f"vnni_{lanes}", "vpdpbusd", lanes, 4, ("uint8", "int8"), ("avx512vnni", *_WIDTHS[lanes]), side)


@declared_once
def avx_vnni(lanes: int = 8, side: LaneOperand = LaneOperand.WEIGHTS) -> Intrinsic:
    """Four uint8 by four int8 in each of 8 or 4 lanes: vpdpbusd without AVX-512."""
    check_choice("avx_vnni", "lanes", lanes, _AVX_WIDTHS)
    return _vnni(f"avx_vnni_{lanes}", "vpdpbusd", lanes, 4, ("uint8", "int8"), ("avxvnni",), side)


@declared_once
def vnni_pairs(lanes: int = 16, side: LaneOperand = LaneOperand.WEIGHTS) -> Intrinsic:
    """Two int16 by two int16 in each of 16, 8 or 4 lanes: vpdpwssd."""
    check_choice("vnni_pairs", "lanes", lanes, _WIDTHS)
    return _vnni(f"vnni_pairs_{lanes}", "vpdpwssd", lanes, 2, ("int16", "int16"), ("avx512vnni", *_WIDTHS[lanes]), side)


def _vnni(
    name: str,
    instruction: str,
    lanes: int,
    group: int,
    dtypes: tuple[str, str],
    requires: tuple[str, ...],
    side: LaneOperand,
) -> Intrinsic:
    """A VNNI instruction; LLVM selects the encoding by the features."""

    def emit(builder: Value, acc: Value, x: Value, w: Value) -> Value:
        words = (builder.bitcast(operand, acc.type) for operand in (x, w))
        return call_intrinsic(builder, f"llvm.x86.avx512.{instruction}.{lanes * 32}", acc.type, acc, *words)

    return _declare(name, lanes, group, dtypes, requires, side, emit)


_MADD = {
    16: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
    8: ("avx2", "llvm.x86.avx2.pmadd.wd"),
    4: ("sse2", "llvm.x86.sse2.pmadd.wd"),
}


@declared_once
def madd(lanes: int = 8, side: LaneOperand = LaneOperand.WEIGHTS) -> Intrinsic:
    """Two int16 by two int16 in each of 16, 8 or 4 lanes, without VNNI: pmaddwd and paddd."""
    check_choice("madd", "lanes", lanes, _MADD)
    feature, name = _MADD[lanes]

    def emit(builder: Value, acc: Value, x: Value, w: Value) -> Value:
        return builder.add(acc, call_intrinsic(builder, name, acc.type, x, w))

    return _declare(f"madd_{lanes}", lanes, 2, ("int16", "int16"), (feature,), side, emit)


_NARROW = ("int4", "int2")


@declared_once
def maddubs(weights: str = "int4") -> Intrinsic:
    """Four uint8 by four int4 (or int2) in each of 8 lanes with AVX2: pmaddubsw and pmaddwd.

    pmaddubsw adds two products in int16 with saturation, which is exact only for narrow weights:
    two products of a uint8 and an int4 sum to at most 2 * 255 * 8 in magnitude.
    """
    check_choice("maddubs", "weights", weights, _NARROW)

    def emit(builder: Value, acc: Value, x: Value, w: Value) -> Value:
        pairs = call_intrinsic(builder, "llvm.x86.avx2.pmadd.ub.sw", vector_type(16, 16), x, w)
        ones = broadcast(builder, ir.Constant(ir.IntType(16), 1), 16)
        return builder.add(acc, call_intrinsic(builder, "llvm.x86.avx2.pmadd.wd", acc.type, pairs, ones))

    return _declare(f"maddubs_{weights}", 8, 4, ("uint8", weights), ("avx2",), LaneOperand.WEIGHTS, emit)


# --- Arm ------------------------------------------------------------------------------------------


@declared_once
def neon_pairs(side: LaneOperand = LaneOperand.WEIGHTS) -> Intrinsic:
    """Two int8 by two int8 in each of 4 lanes, on 32-bit Arm and AArch64: smull and sadalp."""

    def emit(builder: Value, acc: Value, x: Value, w: Value) -> Value:
        products = builder.mul(*(builder.sext(operand, vector_type(16, 8)) for operand in (x, w)))
        if architecture_of(builder.module.triple) == "aarch64":
            return builder.add(acc, call_intrinsic(builder, "llvm.aarch64.neon.saddlp.v4i32.v8i16", acc.type, products))
        return call_intrinsic(builder, "llvm.arm.neon.vpadals.v4i32.v8i16", acc.type, acc, products)

    return _declare("neon_pairs", 4, 2, ("int8", "int8"), ("neon",), side, emit)


@declared_once
def neon_mac(side: LaneOperand = LaneOperand.WEIGHTS) -> Intrinsic:
    """One int16 by one int16 in each of 4 lanes: vmlal.s16, smlal."""

    def emit(builder: Value, acc: Value, x: Value, w: Value) -> Value:
        return builder.add(acc, builder.mul(*(builder.sext(operand, acc.type) for operand in (x, w))))

    return _declare("neon_mac", 4, 1, ("int16", "int16"), ("neon",), side, emit)


@declared_once
def neon_dot(side: LaneOperand = LaneOperand.WEIGHTS) -> Intrinsic:
    """Four int8 by four int8 in each of 4 lanes, on Arm CPUs with dot products: sdot."""

    def emit(builder: Value, acc: Value, x: Value, w: Value) -> Value:
        name = f"llvm.{architecture_of(builder.module.triple)}.neon.sdot.v4i32.v16i8"
        return call_intrinsic(builder, name, acc.type, acc, x, w)

    return _declare("neon_dot", 4, 4, ("int8", "int8"), ("neon", "dotprod"), side, emit)


# --- selection ------------------------------------------------------------------------------------


def best_dot(target: Target) -> Intrinsic:
    """The fastest dot product of `target`; a CPU without one runs the behaviour of `madd`."""
    require_target("best_dot", target)
    return next((intrinsic for intrinsic in _fastest_first() if target.has(*intrinsic.requires)), madd(4))


def dot_for_layout(target: Target, lanes: int, group: int, data: str) -> Intrinsic:
    """A dot product for a given layout, of `target` if it has one; else its behaviour runs."""
    require_target("dot_for_layout", target)
    candidates = [dot for dot in _fastest_first() if dot_layout(dot) == (lanes, group, data)]
    if not candidates:
        known = ", ".join(str(layout) for layout in dict.fromkeys(map(dot_layout, _fastest_first())))
        rule = f"(lanes, group, data) must be one of {known}"
        raise IntrinsicError(f"dot_for_layout: {rule}, got {(lanes, group, data)}")
    return next((dot for dot in candidates if target.has(*dot.requires)), candidates[0])


def _fastest_first() -> tuple[Intrinsic, ...]:
    """The candidates for convolutions."""
    return (vnni(16), vnni(8), avx_vnni(8), madd(16), madd(8), madd(4), neon_dot(), neon_pairs())


def dot_layout(dot: Intrinsic) -> tuple[int, int, str]:
    """The lanes, the group and the dtype of the data of a dot product."""
    if not isinstance(dot, Intrinsic):
        raise IntrinsicError(f"dot_layout: dot must be an Intrinsic, got {dot!r}")
    lanes, group = dot.behaviour.buffers["w"].dims
    return lanes, group, dot.behaviour.buffers["x"].dtype
