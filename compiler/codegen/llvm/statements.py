# SPDX-License-Identifier: Apache-2.0
"""Statements of the lowered form.

A VECTORIZE loop around stores is one operation on all its lanes; around anything else it is serial.
"""

from __future__ import annotations

from math import prod

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import MAX_EXTENT
from vdla.compiler.codegen.llvm import memory
from vdla.compiler.codegen.llvm.addresses import emit_index
from vdla.compiler.codegen.llvm.expressions import evaluate, restrict_lanes
from vdla.compiler.codegen.llvm.function_builder import ALIGN, BaseAddress, FunctionBuilder
from vdla.compiler.codegen.llvm.heap import allocate_slots
from vdla.compiler.codegen.llvm.lanes import VectorLanes
from vdla.compiler.codegen.llvm.loops import count_up
from vdla.compiler.codegen.llvm.objects import CodegenError
from vdla.compiler.codegen.llvm.parallel import emit_parallel_loop
from vdla.compiler.codegen.llvm.types import VOID, Value, call_intrinsic, lane_count, stored_type


def emit(fb: FunctionBuilder, stmt: ir.Stmt) -> None:
    """Emit `stmt` at the insertion point."""
    if fb.kernel.rules.emit(fb, stmt):
        return
    match stmt:
        case ir.Seq(stmts=stmts):
            for inner in stmts:
                emit(fb, inner)
        case ir.Store() | ir.MultiStore():
            _store(fb, stmt, None)
        case ir.If(cond=cond, body=body):
            with fb.statement():
                holds = evaluate(fb, cond)
            with fb.branch(holds, "if"):
                emit(fb, body)
        case ir.Prefetch(buffer=name, indices=indices):
            with fb.statement():
                memory.prefetch(fb, name, indices)
        case ir.Atomic(body=body):
            emit(fb, body)
        case ir.Barrier():
            pass  # the threads of a block run in sequence
        case ir.For():
            _loop(fb, stmt)
        case ir.Alloc(buffers=buffers, body=body):
            _alloc(fb, [fb.buffers[name] for name in buffers], body)
        case ir.HeapAlloc(body=body):
            with allocate_slots(fb, stmt):
                emit(fb, body)
        case ir.IntrinsicCall(body=body):  # the behaviour
            with fb.statement():
                emit(fb, body)
        case ir.Block(name=name):
            raise CodegenError(f"{fb.kernel.fn.name}: function must be lowered first, got the block {name}")


def _store(fb: FunctionBuilder, stmt: ir.Store | ir.MultiStore, lanes: VectorLanes | None) -> None:
    """One store, or several; all values are evaluated before the first is written."""
    stores = stmt.stores if isinstance(stmt, ir.MultiStore) else (stmt,)
    with fb.statement():
        values = [evaluate(fb, inner.value, lanes) for inner in stores]
        for inner, value in zip(stores, values, strict=True):
            memory.store(fb, inner.buffer, inner.indices, value, lanes)


# --- loops ----------------------------------------------------------------------------------------


def _loop(fb: FunctionBuilder, loop: ir.For) -> None:
    if isinstance(loop.extent, int) and loop.extent > MAX_EXTENT:
        rule = f"loop {loop.var} must have at most {MAX_EXTENT} iterations, as its variable is an int32"
        raise CodegenError(f"{fb.kernel.fn.name}: {rule}, got {loop.extent}")
    if loop.kind is ir.LoopKind.VECTORIZE and loop.size > 1 and _is_vector_statement(loop.body):
        return _vector(fb, loop.body, VectorLanes(loop.var, loop.size))
    if loop.kind is ir.LoopKind.PARALLEL:
        return emit_parallel_loop(fb, loop, emit)
    if loop.extent == 1:
        with fb.variable(loop.var, fb.index(0), 0):
            return emit(fb, loop.body)
    end, largest = _extent_and_largest(fb, loop)
    if largest >= 0:
        count_up(fb, loop, fb.index(0), end, largest, lambda: emit(fb, loop.body))
    return None


def _extent_and_largest(fb: FunctionBuilder, loop: ir.For) -> tuple[Value, int]:
    """The extent of a loop, and the largest value that its variable may take."""
    if isinstance(loop.extent, int):
        return fb.index(loop.extent), loop.extent - 1
    return emit_index(fb, loop.extent), MAX_EXTENT - 1


def _is_vector_statement(stmt: ir.Stmt) -> bool:
    """Whether a statement can run on all lanes at once."""
    match stmt:
        case ir.Store() | ir.MultiStore():
            return True
        case ir.If(body=body):
            return _is_vector_statement(body)
    return False


def _vector(fb: FunctionBuilder, stmt: ir.Stmt, lanes: VectorLanes) -> None:
    if isinstance(stmt, ir.Store | ir.MultiStore):
        return _store(fb, stmt, lanes)
    assert isinstance(stmt, ir.If)
    with fb.statement():
        cond = evaluate(fb, stmt.cond, lanes)
    if lane_count(cond) is not None:
        return _vector(fb, stmt.body, restrict_lanes(fb, lanes, cond))
    with fb.branch(cond, "if"):
        return _vector(fb, stmt.body, lanes)


# --- temporaries ----------------------------------------------------------------------------------


def _alloc(fb: FunctionBuilder, buffers: list[ir.Buffer], body: ir.Stmt) -> None:
    """Stack slots in the entry block, live during the body only."""
    slots = []
    for buffer in buffers:
        kind = llvm.ArrayType(stored_type(buffer.dtype, fb.target), prod(buffer.dims))
        slots.append(fb.stack_slot(kind, buffer.name))
        fb.bases[buffer.name] = BaseAddress(slots[-1], ALIGN)
        call_intrinsic(fb.builder, "llvm.lifetime.start.p0", VOID, slots[-1])
    emit(fb, body)
    for buffer, slot in zip(buffers, slots, strict=True):
        call_intrinsic(fb.builder, "llvm.lifetime.end.p0", VOID, slot)
        del fb.bases[buffer.name]
