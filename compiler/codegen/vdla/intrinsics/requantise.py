"""The requantiser: sums leave the accumulator as results, in the pass that finishes them.

`requantised` is the project's one formula as a tensor expression: bias, multiplier, rounding shift, zero point, clip.
Standing alone, an epilogue costs a pass of the vector unit that adds nothing to the sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla.fold_compute import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.intrinsics.gemm import cycles
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import Epilogue, Nest
from vdla.compiler.tensorize.intrinsic import IMMEDIATE, Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Config

MULT_BITS, SHIFT_BITS = 24, 6


def requantised(
    total: te.Value, lane: te.Value, zero_point: te.Operand, low: te.Operand, high: te.Operand, dtype: str
) -> te.Value:
    """clip(round_half_up((total + bias) * mult / 2^shift) + zero_point, low, high), with the lane's parameters.

    `total` int32; `lane` int64 as `numerics.pack_scale` makes it; the bounds are int64; the result is of `dtype`.
    """
    bias = te.cast("int32", lane)
    mult = (lane >> 32) & ((1 << MULT_BITS) - 1)
    shift = (lane >> (32 + MULT_BITS)) & ((1 << SHIFT_BITS) - 1)
    scaled = te.cast("int64", total + bias) * mult
    rounded = (scaled + ((te.const(1, "int64") << shift) >> 1)) >> shift
    return te.cast(dtype, te.clip(rounded + zero_point, low, high))


@lru_cache
def requantise(config: Config) -> Intrinsic:
    """out[b, o] = the requantised acc[b, o], with the parameters of lane o."""
    acc = te.placeholder((config.batch, config.block_out), "int32", "acc")
    scl = te.placeholder((config.block_out,), "int64", "scl")
    zero, low, high = (te.placeholder((1,), "int64", n) for n in ("zero_point", "clip_lo", "clip_hi"))
    out = te.compute(
        acc.shape,
        lambda b, o: requantised(acc[b, o], scl[o], zero[0], low[0], high[0], config.out_dtype),
        "out",
    )
    scopes = {"acc": "acc", "scl": "scl", "out": "out"} | dict.fromkeys(("zero_point", "clip_lo", "clip_hi"), IMMEDIATE)
    return Intrinsic("requantise", out, scopes, _lower, cycles, epilogue=True)


@lru_cache
def raw(config: Config) -> Intrinsic:
    """out[b, o] = acc[b, o], all 32 bits."""
    acc = te.placeholder((config.batch, config.block_out), "int32", "acc")
    out = te.compute(acc.shape, lambda b, o: acc[b, o], "out")
    return Intrinsic("raw", out, {"acc": "acc", "out": "out"}, _lower, cycles, epilogue=True)


def _lower(nest: Nest) -> Iterator[MacroOp]:
    """A pass of its own: each sum, plus nothing, is emitted."""
    alone = replace(nest, access={"acc": nest.access["acc"]}, init=False, epilogue=Epilogue(nest.match, nest.access))

    def instruction(fields: dict[str, Any]) -> isa.Instruction:
        return isa.Vector(isa.VectorOp.ADD, isa.Operand.IMM, isa.Source.ACC, 0, **fields)

    return fold_compute(alone, ComputeFields("acc"), instruction)
