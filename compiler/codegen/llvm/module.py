# SPDX-License-Identifier: Apache-2.0
"""A lowered function as an LLVM module: `<name>__body`, and one function per parallel loop.

`i32 <name>__body(ptr per parameter, i64 per scalar)` returns 0, or NO_MEMORY. It trusts its
arguments: data are aligned to an element, parameters do not overlap, scalars are at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import MAX_EXTENT, element_bytes
from vdla.compiler.codegen.llvm.expressions import evaluate
from vdla.compiler.codegen.llvm.function_builder import (
    BaseAddress,
    FunctionBuilder,
    Hint,
    KernelModule,
    set_buffer_attributes,
    start,
)
from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter
from vdla.compiler.codegen.llvm.loops import cpu_loop_hints
from vdla.compiler.codegen.llvm.statements import emit
from vdla.compiler.codegen.llvm.types import I32, I64, POINTER, Value
from vdla.compiler.lowering.legalise import legalise
from vdla.compiler.target import Target
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


NO_MEMORY = 1


def body_symbol(name: str) -> str:
    """The symbol of the function that computes kernel `name`."""
    return f"{name}__body"


def emit_module(fn: ir.Function, target: Target, contract: bool) -> Any:  # noqa: ANN401  an llvmlite module
    """The module of a lowered function; `contract` allows fused multiply-adds.

    Raises:
        CodegenError: the function is not in the lowered form, or a loop is too long for its int32
            variable.
        TargetError: a buffer is larger than what the target can address.
    """
    module = llvm.Module(fn.name)
    module.triple = target.triple
    fb = _start_body(KernelModule(fn=fn, target=target, contract=contract, module=module, rules=CpuRules()))
    emit(fb, legalise(fn.body, fn.buffers))
    fb.builder.ret(I32(0))
    return module


def _start_body(kernel: KernelModule) -> FunctionBuilder:
    """The builder of the body, with its parameters and scalars defined."""
    fn = kernel.fn
    parameters = [POINTER] * len(fn.params) + [I64] * len(fn.scalars)
    function = kernel.add_function(body_symbol(fn.name), I32, parameters)
    fb = FunctionBuilder(
        kernel=kernel, function=function, builder=start(function), return_error=_return_error, evaluate=evaluate
    )
    for name, argument in zip(fn.params, function.args, strict=False):
        buffer = fn.buffers[name]
        align = element_bytes(buffer.dtype)
        set_buffer_attributes(argument, align)
        size = kernel.nbytes(buffer)
        if all(isinstance(extent, int) for extent in buffer.shape):
            argument.attributes.dereferenceable = size
        fb.bases[name] = BaseAddress(argument, align)
    for name, argument in zip(fn.scalars, function.args[len(fn.params) :], strict=True):
        narrow = fb.index_type != I64
        fb.variables[name] = fb.builder.trunc(argument, fb.index_type) if narrow else argument
        fb.ranges[name] = (1, MAX_EXTENT)
    return fb


def _return_error(fb: FunctionBuilder) -> None:
    fb.builder.ret(I32(NO_MEMORY))
