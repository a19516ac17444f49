# SPDX-License-Identifier: Apache-2.0
"""Requantisation intrinsics: epilogues that emit finished sums in the same pass.

`requantisation` is the project's one formula: bias, multiplier, rounding shift, zero point, clip.
An epilogue that cannot be fused costs a pass of the vector unit, which adds 0 to every sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla.fold_compute import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.intrinsics import for_config
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import Epilogue, TensorizedNest
from vdla.compiler.tensorize import IMMEDIATE, Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Config

MULT_BITS, SHIFT_BITS = 24, 6


def requantisation(
    total: te.Value, lane: te.Value, zero_point: te.Operand, low: te.Operand, high: te.Operand, dtype: str
) -> te.Value:
    """clip(round((total + bias) * mult / 2^shift) + zero_point, low, high) as `dtype`.

    Rounds half to even. `total` is int32, `lane` an int64 of `numerics.pack_scale` with bias, mult
    and shift; the other operands are int64.
    """
    bias = te.cast("int32", lane)
    mult = (lane >> 32) & ((1 << MULT_BITS) - 1)
    shift = (lane >> (32 + MULT_BITS)) & ((1 << SHIFT_BITS) - 1)
    scaled = te.cast("int64", total + bias) * mult
    below_half = te.const((1 << 62) - 1, "int64") >> (63 - shift)  # 2^(shift - 1) - 1, 0 for shift 0
    odd = (scaled >> shift) & te.minimum(shift, 1)
    rounded = (scaled + below_half + odd) >> shift
    return te.cast(dtype, te.clip(rounded + zero_point, low, high))


@for_config
def requantise(config: Config) -> Intrinsic:
    """out[b, o] = acc[b, o], requantised with the parameters of lane o."""
    acc = te.placeholder((config.batch, config.block_out), "int32", "acc")
    scl = te.placeholder((config.block_out,), "int64", "scl")
    zero, low, high = (te.placeholder((1,), "int64", n) for n in ("zero_point", "clip_lo", "clip_hi"))
    out = te.compute(
        acc.shape,
        lambda b, o: requantisation(acc[b, o], scl[o], zero[0], low[0], high[0], config.out_dtype),
        "out",
    )
    scopes = {"acc": "acc", "scl": "scl", "out": "out"} | dict.fromkeys(("zero_point", "clip_lo", "clip_hi"), IMMEDIATE)
    return Intrinsic(name="requantise", output=out, scopes=scopes, lower=_lower, epilogue=True)


@for_config
def raw(config: Config) -> Intrinsic:
    """out[b, o] = acc[b, o] in 32 bits."""
    acc = te.placeholder((config.batch, config.block_out), "int32", "acc")
    out = te.compute(acc.shape, lambda b, o: acc[b, o], "out")
    return Intrinsic(name="raw", output=out, scopes={"acc": "acc", "out": "out"}, lower=_lower, epilogue=True)


def _lower(nest: TensorizedNest) -> Iterator[MacroOp]:
    """A separate pass that adds 0 to each sum and emits it."""
    alone = replace(nest, access={"acc": nest.access["acc"]}, init=False, epilogue=Epilogue(nest.match, nest.access))

    def instruction(fields: dict[str, Any]) -> isa.Instruction:
        return isa.Vector(isa.VectorOp.ADD, isa.Operand.IMM, isa.Source.ACC, 0, **fields)

    return fold_compute(alone, ComputeFields("acc"), instruction)
