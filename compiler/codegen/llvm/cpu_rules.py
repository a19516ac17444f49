"""The statements of a CPU: threads of a grid run in sequence, intrinsics are its instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder, Hint
from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter
from vdla.compiler.codegen.llvm.loops import cpu_loop_hints
from vdla.compiler.codegen.llvm.types import Value
from vdla.compiler.tensorize import IntrinsicError


@dataclass(frozen=True, slots=True)
class CpuRules:
    """Emits the calls of intrinsics that the CPU has."""

    def emit(self, fb: FunctionBuilder, stmt: ir.Stmt) -> bool:
        """Emit a call of an intrinsic by its own code, if the CPU has all it requires."""
        if not isinstance(stmt, ir.IntrinsicCall):
            return False
        intrinsic = stmt.match.intrinsic
        if intrinsic.target != "cpu" or not fb.target.has(*intrinsic.requires):
            return False
        with fb.statement():
            intrinsic.lower(IntrinsicEmitter(fb, stmt.match))
        if fb.builder.block.is_terminated:
            rule = "lower must leave the builder in a block without terminator"
            raise IntrinsicError(f"intrinsic {intrinsic.name}: {rule}, got {fb.builder.block.terminator}")
        return True

    def loop_hints(self, fb: FunctionBuilder, loop: ir.For, blocks: Sequence[Value]) -> list[Hint]:
        """Loops in which the schedule has made vectors stay as they are."""
        return cpu_loop_hints(loop, blocks)
