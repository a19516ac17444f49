# SPDX-License-Identifier: Apache-2.0
"""The statements of a thread of a GPU that other processors do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import element_bytes
from vdla.compiler.arith import var_names
from vdla.compiler.codegen.llvm import memory
from vdla.compiler.codegen.llvm.addresses import element_pointer, offset_of
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder, Hint
from vdla.compiler.codegen.llvm.statements import emit
from vdla.compiler.codegen.llvm.types import I32, VOID, Value, call_intrinsic, is_signed
from vdla.compiler.codegen.ptx.architectures import capability
from vdla.compiler.codegen.ptx.fragment_emitter import PtxFragmentEmitter
from vdla.compiler.ir import storage_dtype
from vdla.compiler.tensorize import LANES

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
    supported = capability(fb.target.cpu)
    return intrinsic.target == "gpu" and all(supported >= capability(least) for least in intrinsic.requires)


def _update(fb: FunctionBuilder, store: ir.Store, value: ir.Binary) -> None:
    """A store `element = element op term` that no other thread interrupts."""
    old = ir.Load(store.buffer, store.indices)
    term = fb.evaluate(fb, value.b if value.a == old else value.a, None)
    address = element_pointer(fb, store.buffer, offset_of(fb, store.buffer, store.indices), in_bounds=True)
    signed = is_signed(fb.buffers[store.buffer].dtype) or value.op == "add"
    fb.builder.atomic_rmw(value.op if signed else f"u{value.op}", address, term, "monotonic")


def _indexes_registers(fb: FunctionBuilder, loop: ir.For) -> bool:
    """Whether the variable of a loop is in an index of a small array of the thread."""
    accesses: tuple[ir.Load | ir.Store, ...] = (*reads(loop.body), *writes(loop.body))
    local_accesses = (access for access in accesses if _is_in_registers(fb.buffers[access.buffer]))
    return any(loop.var in var_names(index) for access in local_accesses for index in access.indices)


def _is_in_registers(buffer: ir.Buffer) -> bool:
    return buffer.scope == "local" and prod(buffer.dims) * element_bytes(buffer.dtype) <= _REGISTER_BYTES


# --- shuffles -------------------------------------------------------------------------------------

_WORD_BITS = 32


def emit_shuffle(fb: FunctionBuilder, store: ir.Store, source: ir.Load, distance: int) -> None:
    """A store of the element that the lane `distance` further holds; all lanes of a warp run it."""
    value = memory.load(fb, source.buffer, source.indices)
    builder, kind = fb.builder, value.type
    width = (
        kind.width if isinstance(kind, llvm.IntType) else storage_dtype(fb.buffers[source.buffer].dtype).itemsize * 8
    )
    bits = value if isinstance(kind, llvm.IntType) else builder.bitcast(value, llvm.IntType(width))
    words = [_word(builder, bits, number) for number in range(-(-width // _WORD_BITS))]
    moved = [_moved(builder, word, distance) for word in words]
    result = _joined(builder, moved, llvm.IntType(width))
    memory.store(
        fb, store.buffer, store.indices, result if isinstance(kind, llvm.IntType) else builder.bitcast(result, kind)
    )


def _moved(builder: Value, word: Value, distance: int) -> Value:
    """A word of the lane `distance` further, or of this lane past the end of the warp."""
    arguments = (I32(_ALL_LANES), word, I32(distance), I32(LANES - 1))
    return call_intrinsic(builder, "llvm.nvvm.shfl.sync.down.i32", I32, *arguments)


def _word(builder: Value, bits: Value, number: int) -> Value:
    """A word of an integer, the lowest first."""
    if bits.type.width <= _WORD_BITS:
        return builder.zext(bits, I32) if bits.type.width < _WORD_BITS else bits
    shifted = builder.lshr(bits, llvm.Constant(bits.type, number * _WORD_BITS)) if number else bits
    return builder.trunc(shifted, I32)


def _joined(builder: Value, words: list[Value], kind: llvm.IntType) -> Value:
    """An integer of words, the lowest first."""
    if kind.width <= _WORD_BITS:
        return builder.trunc(words[0], kind) if kind.width < _WORD_BITS else words[0]
    result = builder.zext(words[0], kind)
    for number, word in enumerate(words[1:], 1):
        result = builder.or_(result, builder.shl(builder.zext(word, kind), llvm.Constant(kind, number * _WORD_BITS)))
    return result


# --- accesses -------------------------------------------------------------------------------------


def reads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """The loads in a statement and inside of it."""
    for inner in ir.walk(stmt):
        for expr in _expressions(inner):
            yield from ir.find(expr, ir.Load)


def writes(stmt: ir.Stmt) -> Iterator[ir.Store]:
    """The stores in a statement."""
    return ir.find(stmt, ir.Store)


def _expressions(stmt: ir.Stmt) -> Iterator[ir.Expr]:
    match stmt:
        case ir.Store(indices=indices, value=value):
            yield from (*indices, value)
        case ir.If(cond=cond):
            yield cond
        case ir.For(extent=extent) if not isinstance(extent, int):
            yield extent
