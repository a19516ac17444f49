# SPDX-License-Identifier: Apache-2.0
"""The intrinsics that the mapper maps onto, and in which form a plain expression has each of them.

Activations of the vector unit lie in the input buffer, or in the accumulator where a block of
results is not a multiple of one of inputs. A plain expression knows nothing of that: it is compared
with the *pattern*, and the *issued* intrinsic reads the same operands from where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from vdla.compiler import ir
from vdla.compiler.codegen.vdla.intrinsics import vector
from vdla.compiler.codegen.vdla.intrinsics.gemm import gemm
from vdla.compiler.extensions import machine_intrinsics
from vdla.compiler.map.entries import lookup_tables, whole_dims
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import IMMEDIATE, Intrinsic
from vdla.hardware.config import Config
from vdla.hardware.isa import Operand, Source, VectorOp


@dataclass(frozen=True, slots=True)
class Core:
    """An intrinsic as plain expressions have it, and as it is issued."""

    pattern: Intrinsic
    issued: Intrinsic

    @property
    def accumulates(self) -> bool:
        """Whether it is a step of a reduction."""
        stage = self.pattern.output.stage
        assert isinstance(stage, Stage)
        return stage.reduction is not None

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the intrinsic: those of the result, and those of a reduction over entries."""
        stage = self.pattern.output.stage
        assert isinstance(stage, Stage)
        loads = [e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load)]
        indices = {index.name for load in loads for index in load.indices if isinstance(index, ir.Var)}
        reduced = stage.reduction.axes if stage.reduction else ()
        inner = [name for name in (axis_name(axis.name) for axis in reduced) if name in indices]
        return (*map(axis_name, stage.axes), *inner)

    @property
    def held(self) -> str | None:
        """The operand that is loaded as weights; None where windows move over the only operand,
        though it lies in the weight buffer.
        """
        entries = {name: scope for name, scope in self.pattern.scopes.items() if scope != IMMEDIATE}
        operands = [name for name in entries if name not in (*lookup_tables(self.pattern), self.pattern.output.name)]
        weights = [name for name in operands if entries[name] == "wgt"]
        return weights[0] if weights and operands != weights else None

    @property
    def is_only_step(self) -> bool:
        """Whether it is the only step of a computation: it accumulates, or computes sums from
        activations and weights alone, or from entries that it reads in part.
        """
        sums = [name for name, scope in self.pattern.scopes.items() if scope == "acc"]
        alone = self.held is not None or bool(whole_dims(self.pattern))
        return self.accumulates or (alone and sums == [self.pattern.output.name])


def machine_cores(config: Config) -> list[Core]:
    """The intrinsics of a machine, those of its extensions included: those that accumulate, then
    those of element-wise steps.
    """
    return list(_cores(config, tuple(machine_intrinsics(config))))


@lru_cache(maxsize=64)
def _cores(config: Config, declared: tuple[Intrinsic, ...]) -> tuple[Core, ...]:
    """The cores of a machine and the intrinsics of its extensions."""
    source = Source.INP if config.block_out % config.block_in == 0 else Source.ACC
    reductions = [
        Core(vector.reduction(config, op), vector.reduction(config, op, source))
        for op in (VectorOp.ADD, VectorOp.MAX, VectorOp.MIN)
    ]
    depthwise = Core(vector.mac(config, Operand.WGT), vector.mac(config, Operand.WGT, source))
    first = of_intrinsics([gemm(config), *declared])
    return (*first, depthwise, *reductions, *_element_wise(config, source))


def of_intrinsics(intrinsics: Sequence[Intrinsic]) -> list[Core]:
    """Intrinsics that are issued as they are declared."""
    return [Core(intrinsic, intrinsic) for intrinsic in intrinsics]


def _element_wise(config: Config, source: Source) -> list[Core]:
    """Steps on a window or an immediate, then those on another accumulator entry."""
    ops = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MIN, VectorOp.MAX)
    imm, src, acc = Operand.IMM, Operand.SRC, Source.ACC
    windows = [
        Core(vector.mac_in_place(config, imm), vector.mac_in_place(config, imm, source)),
        Core(vector.product(config, imm), vector.product(config, imm, source)),
        *(Core(vector.in_place(config, op, src), vector.in_place(config, op, src, source)) for op in ops),
        Core(vector.move(config, src), vector.move(config, src, source)),
    ]
    entries = [
        *(vector.in_place(config, op, imm) for op in ops),
        vector.product(config, imm, acc),
        vector.mac_in_place(config, imm, acc),
        *(vector.in_place(config, op, src, acc) for op in ops),
        vector.move(config, src, acc),
    ]
    return [*windows, *of_intrinsics(entries)]
