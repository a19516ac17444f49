"""The GEMM intrinsic: (batch x block_in) . (block_out x block_in)^T, one per cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla.fold_compute import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.intrinsics.for_config import for_config
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import TensorizedNest
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Config


@for_config
def gemm(config: Config) -> Intrinsic:
    """acc[b, o] += sum over i of inp[b, i] * wgt[o, i], in int32."""
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    acc = te.compute(
        (config.batch, config.block_out),
        lambda b, o: te.sum(te.cast("int32", inp[b, i]) * te.cast("int32", wgt[o, i]), axis=i),
        "acc",
    )
    return Intrinsic(name="gemm", output=acc, scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"}, lower=_lower)


def _lower(nest: TensorizedNest) -> Iterator[MacroOp]:
    return fold_compute(nest, ComputeFields(acc="acc", src="inp", wgt="wgt"), _instruction)


def _instruction(fields: dict[str, Any]) -> isa.Instruction:
    return isa.Gemm(**fields)
