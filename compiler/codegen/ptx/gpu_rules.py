"""The statements of a thread of a GPU that other processors do not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.abi import element_bytes
from vdla.compiler.arith import var_names
from vdla.compiler.codegen.llvm.addresses import element_pointer, offset_of
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder, Hint
from vdla.compiler.codegen.llvm.statements import emit
from vdla.compiler.codegen.llvm.types import I32, VOID, Value, call_intrinsic, is_signed
from vdla.compiler.codegen.ptx.accesses import reads, writes
from vdla.compiler.codegen.ptx.architectures import capability
from vdla.compiler.codegen.ptx.fragment_emitter import PtxFragmentEmitter
from vdla.compiler.codegen.ptx.shuffle import emit_shuffle

_UNROLL = ("llvm.loop.unroll.full",)
_REGISTER_BYTES = 1024
"""What a thread can hold in registers: 255 of 4 bytes."""
_ALL_LANES = -1


@dataclass(frozen=True, slots=True)
class GpuRules:
    """Emits barriers, shuffles, atomic updates and steps of tensor cores; unrolls loops over
    registers."""

    def emit(self, fb: FunctionBuilder, stmt: ir.Stmt) -> bool:
        """Emit a statement of threads that wait for each other, or share memory."""
        match stmt:
            case ir.Barrier(scope=ir.BarrierScope.WARP):
                call_intrinsic(fb.builder, "llvm.nvvm.bar.warp.sync", VOID, I32(_ALL_LANES))
            case ir.Barrier():
                call_intrinsic(fb.builder, "llvm.nvvm.barrier.cta.sync.aligned.all", VOID, I32(0))
            case ir.Atomic(body=ir.Store(value=ir.Binary() as value) as store):
                with fb.statement():
                    _update(fb, store, value)
            case ir.Shuffle(body=ir.Store(value=ir.Load() as source) as store, distance=distance):
                with fb.statement():
                    emit_shuffle(fb, store, source, distance)
            case ir.IntrinsicCall(match=match) if _has(fb, match.intrinsic):
                with fb.statement():
                    match.intrinsic.lower(PtxFragmentEmitter(fb, match))
            case ir.For(kind=ir.LoopKind.PARALLEL):  # a thread runs it alone
                emit(fb, replace(stmt, kind=ir.LoopKind.SERIAL))
            case ir.Prefetch():
                pass
            case _:
                return False
        return True

    def loop_hints(self, fb: FunctionBuilder, loop: ir.For, blocks: Sequence[Value]) -> list[Hint]:
        """Registers have no addresses: their arrays are indexed by constants."""
        return [_UNROLL] if isinstance(loop.extent, int) and _indexes_registers(fb, loop) else []


def _has(fb: FunctionBuilder, intrinsic: ir.DeclaredIntrinsic) -> bool:
    """Whether the GPU has an intrinsic: its capability is at least the one that it requires."""
    own = capability(fb.target.cpu)
    return intrinsic.target == "gpu" and all(own >= capability(least) for least in intrinsic.requires)


def _update(fb: FunctionBuilder, store: ir.Store, value: ir.Binary) -> None:
    """A store `element = element op term` that no other thread interrupts."""
    own = ir.Load(store.buffer, store.indices)
    term = fb.evaluate(fb, value.b if value.a == own else value.a, None)
    address = element_pointer(fb, store.buffer, offset_of(fb, store.buffer, store.indices), in_bounds=True)
    signed = is_signed(fb.buffers[store.buffer].dtype) or value.op == "add"
    fb.builder.atomic_rmw(value.op if signed else f"u{value.op}", address, term, "monotonic")


def _indexes_registers(fb: FunctionBuilder, loop: ir.For) -> bool:
    """Whether the variable of a loop is in an index of a small array of the thread."""
    accesses: tuple[ir.Load | ir.Store, ...] = (*reads(loop.body), *writes(loop.body))
    own = (access for access in accesses if _is_in_registers(fb.buffers[access.buffer]))
    return any(loop.var in var_names(index) for access in own for index in access.indices)


def _is_in_registers(buffer: ir.Buffer) -> bool:
    return buffer.scope == "local" and prod(buffer.dims) * element_bytes(buffer.dtype) <= _REGISTER_BYTES
