"""Dot products of four neighbouring pixels in each channel.

acc[o] += sum over i of x[i, o] * w[o, i]: the inner step of depthwise convolutions of blocks of
channels. One load brings four pixels of a block, one permutation gives each channel its four.
Shorter kernels are padded with zero weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.vectors import check_choice, declared_once, require_target, vector_type
from vdla.compiler.codegen.llvm.intrinsics.window_dot import permute_bytes
from vdla.compiler.target import Target
from vdla.compiler.tensorize import MEMORY, Intrinsic

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter

TAPS = 4
_LANES = (16, 8)
_REQUIRES = ("avx512vnni", "avx512vbmi", "avx512bw", "avx512vl")


@declared_once
def vnni_channel_windows(lanes: int = 16) -> Intrinsic:
    """Four uint8 pixels by four int8 in each of 16 or 8 channels: vpermb, vpdpbusd."""
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

    scopes = {"x": MEMORY, "w": MEMORY, "acc": MEMORY}
    return Intrinsic(
        name=f"vnni_channel_windows_{lanes}", output=acc, scopes=scopes, lower=lower, target="cpu", requires=_REQUIRES
    )


def best_channel_window_dot(target: Target, lanes: int) -> Intrinsic | None:
    """The dot product of neighbouring pixels of `target`; None if it has none for this block."""
    require_target("best_channel_window_dot", target)
    return vnni_channel_windows(lanes) if lanes in _LANES and target.has(*_REQUIRES) else None
