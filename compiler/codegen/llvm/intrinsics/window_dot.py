"""Dot products with sliding windows: acc[o] += sum over i of x[o * stride + i] * w[i], four taps at a time.

The heart of depthwise convolutions, where neighbouring results share activations: one load brings the activations of
all lanes, one permutation gives each lane its own four. Kernels of fewer taps have weights of 0 behind.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.choices import one_of
from vdla.compiler.codegen.llvm.intrinsics.vectors import Builder, Val, call, repeated, vector
from vdla.compiler.target import Target
from vdla.compiler.tensorize.intrinsic import MEMORY, Intrinsic

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.step import NativeStep

TAPS = 4
LANES = (16, 8)
STRIDES = range(1, TAPS + 1)  # with longer ones the activations of all lanes fill more than one vector
REQUIRES = ("avx512vnni", "avx512vbmi", "avx512bw", "avx512vl")


def window_length(lanes: int, stride: int) -> int:
    """The activations that one step reads."""
    return (lanes - 1) * stride + TAPS


@lru_cache
def vnni_windows(lanes: int, stride: int) -> Intrinsic:
    """Windows of uint8 by four int8 in each of 16 or 8 lanes: vpermb and vpdpbusd; `stride` is at most 4."""
    one_of("vnni_windows", "lanes", lanes, LANES)
    one_of("vnni_windows", "stride", stride, STRIDES)
    x = te.placeholder((window_length(lanes, stride),), "uint8", "x")
    w = te.placeholder((TAPS,), "int8", "w")
    i = te.reduce_axis(TAPS, "i")
    acc = te.compute(
        (lanes,), lambda o: te.sum(te.cast("int32", x[o * stride + i]) * te.cast("int32", w[i]), axis=i), "acc"
    )
    order = [o * stride + i for o in range(lanes) for i in range(TAPS)]

    def lower(step: NativeStep) -> None:
        builder, sums = step.builder, step.load("acc")
        data = gathered(builder, read(builder, step.pointer("x"), window_length(lanes, stride), len(order)), order)
        weights = repeated(builder, step.load("w"), lanes)
        words = builder.bitcast(data, sums.type)
        name = f"llvm.x86.avx512.vpdpbusd.{lanes * 32}"
        step.store("acc", call(builder, name, sums.type, sums, words, weights))

    scopes = {"x": MEMORY, "w": MEMORY, "acc": MEMORY}
    return Intrinsic(f"vnni_windows_{lanes}_{stride}", acc, scopes, lower, target="cpu", requires=REQUIRES)


def read(builder: Builder, pointer: Val, length: int, lanes: int) -> Val:
    """`length` bytes in a vector of `lanes`, without touching those behind."""
    kind = vector(8, lanes)
    mask = ir.Constant(vector(1, lanes), [int(lane < length) for lane in range(lanes)])
    one, nothing = ir.Constant(ir.IntType(32), 1), ir.Constant(kind, ir.Undefined)
    return call(builder, f"llvm.masked.load.v{lanes}i8.p0", kind, pointer, one, mask, nothing)


def gathered(builder: Builder, value: Val, order: list[int]) -> Val:
    """The bytes of `value` in another order, with one vpermb.

    An empty piece of assembly hides what the order is: LLVM would make many cheaper instructions of it.
    """
    places = ir.Constant(value.type, order)
    hidden = builder.asm(ir.FunctionType(value.type, [value.type]), "", "=v,0", [places], side_effect=False)
    return call(builder, f"llvm.x86.avx512.permvar.qi.{len(order) * 8}", value.type, value, hidden)


def best_window_dot(target: Target, lanes: int, stride: int) -> Intrinsic | None:
    """The dot product with which `target` slides windows fastest, if it has one for this stride."""
    return vnni_windows(lanes, stride) if stride in STRIDES and target.has(*REQUIRES) else None
