"""Intrinsics of the vector unit: operations on accumulator entries, one entry per cycle.

Three forms: a *reduction* starts from its first operand and combines the others with it; an
operation *in place* combines the accumulator's old value with its operand; MOV and the product of a
multiply-accumulate start a new value. The operand is an activation (in the input buffer or the
accumulator), a weight vector, or an immediate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla.fold_compute import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.intrinsics.for_config import for_config
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import TensorizedNest
from vdla.compiler.tensorize import IMMEDIATE, Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import Operand, Source, VectorOp

_Combine = Callable[[te.Value, te.Value], te.Value]


def _shift_right(a: te.Value, b: te.Value) -> te.Value:
    """Arithmetic right shift by the low five bits, rounded half up."""
    amount = te.cast("int64", b & 31)
    half = (te.const(1, "int64") << amount) >> 1
    return te.cast("int32", (te.cast("int64", a) + half) >> amount)


COMBINE: dict[VectorOp, _Combine] = {
    VectorOp.ADD: lambda a, b: a + b,
    VectorOp.SUB: lambda a, b: a - b,
    VectorOp.MUL: lambda a, b: a * b,
    VectorOp.MIN: lambda a, b: te.minimum(a, b),
    VectorOp.MAX: lambda a, b: te.maximum(a, b),
    VectorOp.SHL: lambda a, b: a << (b & 31),
    VectorOp.SHR: _shift_right,
    VectorOp.CLIP: lambda a, b: te.minimum(te.maximum(a, 0 - b), b),
}
_REDUCERS = {VectorOp.ADD: te.sum, VectorOp.MIN: te.min, VectorOp.MAX: te.max}


@for_config
def reduction(config: Config, op: VectorOp, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = the reduction of x[b, o] over the steps by ADD, MIN or MAX."""
    operands = _Operands(config, source, Operand.SRC)
    step = te.reduce_axis(1, "step")
    acc = te.compute(operands.shape, lambda b, o: _REDUCERS[op](operands.x(b, o), axis=step), "acc")
    return operands.intrinsic(f"{op.name.lower()}_reduce_{source.name.lower()}", acc, op)


@for_config
def mac(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] += x[b, o] * operand, a weight vector (depthwise convolution) or an immediate."""
    operands = _Operands(config, source, operand)
    step = te.reduce_axis(1, "step")
    acc = te.compute(operands.shape, lambda b, o: te.sum(operands.x(b, o) * operands.b(b, o), axis=step), "acc")
    return operands.intrinsic(f"mac_{source.name.lower()}_{operand.name.lower()}", acc, VectorOp.MAC)


@for_config
def mac_in_place(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = old[b, o] + x[b, o] * operand."""
    operands = _Operands(config, source, operand)
    old = operands.old()
    acc = te.compute(operands.shape, lambda b, o: old[b, o] + operands.x(b, o) * operands.b(b, o), "acc")
    return operands.intrinsic(f"mac_in_place_{source.name.lower()}_{operand.name.lower()}", acc, VectorOp.MAC, "old")


@for_config
def product(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = x[b, o] * operand."""
    operands = _Operands(config, source, operand)
    acc = te.compute(operands.shape, lambda b, o: operands.x(b, o) * operands.b(b, o), "acc")
    return operands.intrinsic(f"product_{source.name.lower()}_{operand.name.lower()}", acc, VectorOp.MAC)


@for_config
def move(config: Config, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = operand."""
    operands = _Operands(config, source, operand)
    acc = te.compute(operands.shape, operands.b, "acc")
    return operands.intrinsic(f"mov_{source.name.lower()}_{operand.name.lower()}", acc, VectorOp.MOV)


@for_config
def in_place(config: Config, op: VectorOp, operand: Operand, source: Source = Source.INP) -> Intrinsic:
    """acc[b, o] = old[b, o] op operand."""
    operands = _Operands(config, source, operand)
    old = operands.old()
    acc = te.compute(operands.shape, lambda b, o: COMBINE[op](old[b, o], operands.b(b, o)), "acc")
    declared = operands.intrinsic(f"{op.name.lower()}_{source.name.lower()}_{operand.name.lower()}", acc, op, "old")
    floor = op is VectorOp.SHR and operand is Operand.IMM
    return replace(declared, alternatives=(floor_shift(config),)) if floor else declared


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


class _Operands:
    """The placeholders of a vector intrinsic, and its instruction."""

    def __init__(self, config: Config, source: Source, operand: Operand) -> None:
        self.config, self.source, self.operand = config, source, operand
        self.shape = (config.batch, config.block_out)
        dtype = config.inp_dtype if source is Source.INP else "int32"
        self._x = te.placeholder(self.shape, dtype, "x")
        self._wgt = te.placeholder((config.block_out,), config.wgt_dtype, "wgt")
        self._imm = te.placeholder((1,), "int32", "imm")
        self._old = te.placeholder(self.shape, "int32", "old")

    def x(self, b: te.Value, o: te.Value) -> te.Value:
        """The activation as int32."""
        return te.cast("int32", self._x[b, o])

    def b(self, b: te.Value, o: te.Value) -> te.Value:
        """The second operand as int32."""
        match self.operand:
            case Operand.SRC:
                return self.x(b, o)
            case Operand.WGT:
                return te.cast("int32", self._wgt[o])
            case Operand.IMM:
                return self._imm[0]

    def old(self) -> te.Tensor:
        """The old value of the accumulator."""
        return self._old

    def intrinsic(self, name: str, acc: te.Tensor, op: VectorOp, in_place: str | None = None) -> Intrinsic:
        """The intrinsic, which lowers to VECTOR."""
        scopes = {"x": self.source.name.lower(), "wgt": "wgt", "imm": IMMEDIATE, "old": "acc", "acc": "acc"}
        assert acc.stage is not None
        used = {"acc", *(t.name for t in acc.stage.reads)}
        fields = ComputeFields("acc", "x" if "x" in used else "", "wgt" if "wgt" in used else "")

        def lower(nest: TensorizedNest) -> Iterator[MacroOp]:
            def instruction(values: dict[str, Any]) -> isa.Instruction:
                imm = int(nest.match.immediates.get("imm", 0))
                source = self.source if fields.src else Source.ACC
                return isa.Vector(op, self.operand, source, imm, **values)

            return fold_compute(nest, fields, instruction)

        return Intrinsic(
            name=name, output=acc, scopes={n: s for n, s in scopes.items() if n in used}, lower=lower, in_place=in_place
        )
