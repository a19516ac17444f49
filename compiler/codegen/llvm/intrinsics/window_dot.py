# SPDX-License-Identifier: Apache-2.0
"""Dot products with sliding windows of four taps: acc[o] += sum over i of x[o * stride + i] * w[i].

The inner step of depthwise convolutions, in which neighbouring outputs share inputs: one load
brings the inputs of all lanes, one permutation gives each lane its four. Shorter kernels are padded
with zero weights.
"""

from __future__ import annotations

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
from vdla.compiler.codegen.llvm.types import Value, call_intrinsic, poison
from vdla.compiler.target import Target
from vdla.compiler.tensorize import Intrinsic

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter


TAPS = 4
_LANES = (16, 8)
_STRIDES = range(1, TAPS + 1)  # with larger strides the inputs of all lanes do not fit one vector
_REQUIRES = ("avx512vnni", "avx512vbmi", "avx512bw", "avx512vl")


def _window_length(lanes: int, stride: int) -> int:
    """The number of inputs that one call reads."""
    return (lanes - 1) * stride + TAPS


@declared_once
def vnni_windows(lanes: int, stride: int) -> Intrinsic:
    """Windows of four uint8 by four int8 in 16 or 8 lanes, of stride 1 to 4: vpermb, vpdpbusd."""
    check_choice("vnni_windows", "lanes", lanes, _LANES)
    check_choice("vnni_windows", "stride", stride, _STRIDES)
    length = _window_length(lanes, stride)
    x = te.placeholder((length,), "uint8", "x")
    w = te.placeholder((TAPS,), "int8", "w")
    i = te.reduce_axis(TAPS, "i")
    acc = te.compute(
        (lanes,), lambda o: te.sum(te.cast("int32", x[o * stride + i]) * te.cast("int32", w[i]), axis=i), "acc"
    )
    order = [o * stride + i for o in range(lanes) for i in range(TAPS)]

    def lower(emit: IntrinsicEmitter) -> None:
        builder, sums = emit.builder, emit.load("acc")
        data = permute_bytes(builder, _load_bytes(builder, emit.pointer("x"), length, len(order)), order)
        weights = splat_group(builder, emit.load("w"), lanes)
        words = builder.bitcast(data, sums.type)
        name = f"llvm.x86.avx512.vpdpbusd.{lanes * 32}"
        emit.store("acc", emit.call(name, sums.type, sums, words, weights))

    return cpu_intrinsic(f"vnni_windows_{lanes}_{stride}", acc, lower, _REQUIRES)


def _load_bytes(builder: Value, pointer: Value, length: int, lanes: int) -> Value:
    """`length` bytes in a vector of `lanes`; reads nothing beyond them."""
    kind = vector_type(8, lanes)
    mask = ir.Constant(vector_type(1, lanes), [int(lane < length) for lane in range(lanes)])
    align = ir.Constant(ir.IntType(32), 1)
    return call_intrinsic(builder, f"llvm.masked.load.v{lanes}i8.p0", kind, pointer, align, mask, poison(kind))


def permute_bytes(builder: Value, value: Value, order: list[int]) -> Value:
    """The bytes of `value` in another order, by one vpermb.

    An empty inline assembly hides the constant order from LLVM, which would expand it into several
    slower shuffles. It depends on nothing else, so that equal permutations are computed once.
    """
    indices = ir.Constant(value.type, order)
    hidden = builder.asm(ir.FunctionType(value.type, [value.type]), "", "=v,0", [indices], side_effect=False)
    for attribute in ("nounwind", "readnone"):
        hidden.attributes.add(attribute)
    return call_intrinsic(builder, f"llvm.x86.avx512.permvar.qi.{len(order) * 8}", value.type, value, hidden)


def best_window_dot(target: Target, lanes: int, stride: int) -> Intrinsic | None:
    """The fastest sliding-window dot product of `target`; None if it has none for this stride."""
    require_target("best_window_dot", target)
    return vnni_windows(lanes, stride) if stride in _STRIDES and target.has(*_REQUIRES) else None


# --- windows of each channel ----------------------------------------------------------------------


@declared_once
def vnni_channel_windows(lanes: int = 16) -> Intrinsic:
    """acc[o] += sum over i of x[i, o] * w[o, i], in each of 16 or 8 channels: vpermb, vpdpbusd.

    Four uint8 pixels by four int8: the inner step of depthwise convolutions of blocks of channels.
    One load brings four pixels of a block, one permutation gives each channel its four.
    """
    check_choice("vnni_channel_windows", "lanes", lanes, _LANES)
    x = te.placeholder((TAPS, lanes), "uint8", "x")
    w = te.placeholder((lanes, TAPS), "int8", "w")
    i = te.reduce_axis(TAPS, "i")
    acc = te.compute((lanes,), lambda o: te.sum(te.cast("int32", x[i, o]) * te.cast("int32", w[o, i]), axis=i), "acc")
    order = [tap * lanes + lane for lane in range(lanes) for tap in range(TAPS)]

    def lower(emit: IntrinsicEmitter) -> None:
        builder, sums = emit.builder, emit.load("acc")
        kind = vector_type(8, lanes * TAPS)
        pixels = builder.load(builder.bitcast(emit.pointer("x"), kind.as_pointer()), align=1, typ=kind)
        words = (
            builder.bitcast(operand, sums.type) for operand in (permute_bytes(builder, pixels, order), emit.load("w"))
        )
        emit.store("acc", emit.call(f"llvm.x86.avx512.vpdpbusd.{lanes * 32}", sums.type, sums, *words))

    return cpu_intrinsic(f"vnni_channel_windows_{lanes}", acc, lower, _REQUIRES)


def best_channel_window_dot(target: Target, lanes: int) -> Intrinsic | None:
    """The dot product of neighbouring pixels of `target`; None if it has none for this block."""
    require_target("best_channel_window_dot", target)
    return vnni_channel_windows(lanes) if lanes in _LANES and target.has(*_REQUIRES) else None
