# SPDX-License-Identifier: Apache-2.0
"""The machine's own compute instructions, declared as extensions are.

GEMM is one declaration. VECTOR is several, one for each operation, buffer of activations and second
operand, in three forms: a *reduction* starts from its first operand and combines the others with
it; an operation *in place* combines the accumulator's old value with its operand; MOV and the
product of a multiply-accumulate start a new value. Intrinsics follow from these declarations; what
the hardware and the simulator have by hand is compared with them by tests.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.extensions.extension import Extension
from vdla.hardware.config import Config
from vdla.hardware.isa import Operand, PlugInField, Source, VectorOp

_Combine = Callable[[te.Value, te.Value], te.Value]


def gemm(config: Config) -> Extension:
    """acc[b, o] += sum over i of inp[b, i] * wgt[o, i], in int32."""
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    acc = te.compute(
        (config.batch, config.block_out),
        lambda b, o: te.sum(te.cast("int32", inp[b, i]) * te.cast("int32", wgt[o, i]), axis=i),
        "acc",
    )
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return Extension(name="gemm", doc="Adds the product of two entries.", output=acc, scopes=scopes)


# --- VECTOR ---------------------------------------------------------------------------------------


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
"""What an operation in place computes of the accumulator's old value and the operand."""

REDUCERS = {VectorOp.ADD: te.sum, VectorOp.MIN: te.min, VectorOp.MAX: te.max}
"""The operations that are reductions as well."""


def reduction(config: Config, op: VectorOp, source: Source = Source.INP) -> Extension:
    """acc[b, o] = the reduction of x[b, o] over the steps by ADD, MIN or MAX."""
    v, step = _Vector(config, source, Operand.SRC), te.reduce_axis(1, "step")
    return v.declared(f"{op.name.lower()}_reduce_{v.source}", lambda b, o: REDUCERS[op](v.x(b, o), axis=step))


def mac(config: Config, operand: Operand, source: Source = Source.INP) -> Extension:
    """acc[b, o] += x[b, o] * operand, a weight vector (depthwise convolution) or an immediate."""
    v, step = _Vector(config, source, operand), te.reduce_axis(1, "step")
    return v.declared(f"mac_{v.source}_{v.second}", lambda b, o: te.sum(v.x(b, o) * v.b(b, o), axis=step))


def mac_in_place(config: Config, operand: Operand, source: Source = Source.INP) -> Extension:
    """acc[b, o] = old[b, o] + x[b, o] * operand."""
    v = _Vector(config, source, operand)
    name = f"mac_in_place_{v.source}_{v.second}"
    return v.declared(name, lambda b, o: v.old[b, o] + v.x(b, o) * v.b(b, o), "old")


def product(config: Config, operand: Operand, source: Source = Source.INP) -> Extension:
    """acc[b, o] = x[b, o] * operand."""
    v = _Vector(config, source, operand)
    return v.declared(f"product_{v.source}_{v.second}", lambda b, o: v.x(b, o) * v.b(b, o))


def move(config: Config, operand: Operand, source: Source = Source.INP) -> Extension:
    """acc[b, o] = operand."""
    v = _Vector(config, source, operand)
    return v.declared(f"mov_{v.source}_{v.second}", v.b)


def in_place(config: Config, op: VectorOp, operand: Operand, source: Source = Source.INP) -> Extension:
    """acc[b, o] = old[b, o] op operand."""
    v = _Vector(config, source, operand)
    name = f"{op.name.lower()}_{v.source}_{v.second}"
    return v.declared(name, lambda b, o: COMBINE[op](v.old[b, o], v.b(b, o)), "old")


class _Vector:
    """The operands of a VECTOR."""

    def __init__(self, config: Config, source: Source, operand: Operand) -> None:
        self.operand = operand
        self.source, self.second = source.name.lower(), operand.name.lower()
        self.shape = (config.batch, config.block_out)
        dtype = config.inp_dtype if source is Source.INP else "int32"
        self._x = te.placeholder(self.shape, dtype, "x")
        self._wgt = te.placeholder((config.block_out,), config.wgt_dtype, "wgt")
        self._imm = te.placeholder((1,), "int32", "imm")
        self.old = te.placeholder(self.shape, "int32", "old")

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

    def declared(self, name: str, value: _Combine, in_place: str | None = None) -> Extension:
        """The declaration; its operands are those that `value` reads at an index."""
        acc = te.compute(self.shape, value, "acc")
        assert acc.stage is not None
        scopes = {"x": self.source, "wgt": "wgt", "imm": "immediate", "old": "acc"}
        used = [tensor.name for tensor in acc.stage.reads]
        return Extension(
            name=name,
            doc="Combines an accumulator entry and an operand, element by element.",
            output=acc,
            scopes={"acc": "acc"} | {operand: scopes[operand] for operand in used},
            in_place=in_place,
            fields=[PlugInField("imm", 16, "The immediate operand.", signed=True)] if "imm" in used else (),
        )
