# SPDX-License-Identifier: Apache-2.0
"""Intrinsics of the vector unit: operations on accumulator entries, one entry per cycle.

They follow from declarations (`compiler/extensions/base.py`), which say what each form computes.
The operand is an activation (in the input buffer or the accumulator), a weight vector, or an
immediate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla.fold_compute import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.intrinsics import for_config
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import TensorizedNest
from vdla.compiler.extensions import Extension, base
from vdla.compiler.extensions.intrinsic import step_intrinsic
from vdla.compiler.tensorize import IMMEDIATE, Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import Operand, Source, VectorOp


@for_config
def reduction(config: Config, op: VectorOp, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = the reduction of x[b, o] over the steps by ADD, MIN or MAX."""
    return _intrinsic(config, base.reduction(config, op, source), op, Operand.SRC, source)


@for_config
def mac(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] += x[b, o] * operand, a weight vector (depthwise convolution) or an immediate."""
    return _intrinsic(config, base.mac(config, operand, source), VectorOp.MAC, operand, source)


@for_config
def mac_in_place(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = old[b, o] + x[b, o] * operand."""
    return _intrinsic(config, base.mac_in_place(config, operand, source), VectorOp.MAC, operand, source)


@for_config
def product(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = x[b, o] * operand."""
    return _intrinsic(config, base.product(config, operand, source), VectorOp.MAC, operand, source)


@for_config
def move(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = operand."""
    return _intrinsic(config, base.move(config, operand, source), VectorOp.MOV, operand, source)


@for_config
def in_place(config: Config, op: VectorOp, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = old[b, o] op operand."""
    declared = _intrinsic(config, base.in_place(config, op, operand, source), op, operand, source)
    floor = op is VectorOp.SHR and operand is Operand.IMM
    return replace(declared, alternatives=(floor_shift(config),)) if floor else declared


def _intrinsic(config: Config, declared: Extension, op: VectorOp, operand: Operand, source: Source) -> Intrinsic:
    """The intrinsic, which lowers to VECTOR; its source is the accumulator where none is read."""
    read = source if "x" in declared.scopes else Source.ACC

    def instruction(_: Config, fields: dict[str, Any]) -> isa.Instruction:
        return isa.Vector(op, operand, read, **fields)

    return step_intrinsic(declared, config, instruction)


@for_config
def floor_shift(config: Config) -> Intrinsic:
    """acc[b, o] = old[b, o] >> imm, rounding down; 0 <= imm < 32.

    Four passes, six for more than 16 bits.
    """
    shape = (config.batch, config.block_out)
    old, imm = te.placeholder(shape, "int32", "old"), te.placeholder((1,), "int32", "imm")
    acc = te.compute(shape, lambda b, o: old[b, o] >> (imm[0] & 31), "acc")

    def lower(nest: TensorizedNest) -> Iterator[MacroOp]:
        for op, value in _floor_shift_passes(int(nest.match.immediates["imm"])):
            yield from fold_compute(nest, ComputeFields("acc"), partial(_on_immediate, op, value))

    scopes = {"old": "acc", "acc": "acc", "imm": IMMEDIATE}
    return Intrinsic(name="floor_shift", output=acc, scopes=scopes, lower=lower, in_place="old")


def _on_immediate(op: VectorOp, value: int, fields: dict[str, Any]) -> isa.Instruction:
    return isa.Vector(op, Operand.IMM, Source.ACC, value, **fields)


def _floor_shift_passes(amount: int) -> list[tuple[VectorOp, int]]:
    """Operations that shift right rounding down, with immediates of 16 bits.

    SHR rounds half up, so half is subtracted first. Where that wraps, SHR gives 2^(31 - amount),
    which no other value gives; a shift left and right again turns it into -2^(31 - amount).
    """
    if amount == 0:
        return [(VectorOp.SHR, 0)]
    first = min(amount, 16)
    rest = amount - first
    passes = [(VectorOp.ADD, -(1 << (first - 1))), *((op, first) for op in (VectorOp.SHR, VectorOp.SHL, VectorOp.SHR))]
    return [*passes, (VectorOp.ADD, -(1 << (rest - 1))), (VectorOp.SHR, rest)] if rest else passes
