"""Statements of the lowered form, written into a frame.

A loop is tested at its end, behind a test at its start where its extent may be 0. A VECTORIZE loop around stores is one
operation on all its lanes; around anything else it is a serial loop.
"""

from __future__ import annotations

from math import prod

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import MAX_EXTENT
from vdla.compiler.codegen.llvm import heap, memory, parallel
from vdla.compiler.codegen.llvm.addresses import index
from vdla.compiler.codegen.llvm.expressions import value, within
from vdla.compiler.codegen.llvm.function_builder import ALIGN, Frame, Place
from vdla.compiler.codegen.llvm.lanes import Lanes
from vdla.compiler.codegen.llvm.loops import count_up
from vdla.compiler.codegen.llvm.objects import CodegenError
from vdla.compiler.codegen.llvm.step import NativeStep
from vdla.compiler.codegen.llvm.types import VOID, Value, stored_type
from vdla.compiler.codegen.llvm.types import intrinsic as call_intrinsic
from vdla.compiler.codegen.llvm.types import lanes as lanes_of
from vdla.compiler.tensorize.intrinsic import IntrinsicError


def emit(frame: Frame, stmt: ir.Stmt) -> None:
    """Write `stmt` at the frame's builder."""
    match stmt:
        case ir.Seq(stmts=stmts):
            for inner in stmts:
                emit(frame, inner)
        case ir.Store() | ir.MultiStore():
            store(frame, stmt, None)
        case ir.If(cond=cond, body=body):
            with frame.statement():
                holds = value(frame, cond)
            with frame.branch(holds, "if"):
                emit(frame, body)
        case ir.Prefetch(buffer=name, indices=indices):
            with frame.statement():
                memory.prefetch(frame, name, indices)
        case ir.For():
            _loop(frame, stmt)
        case ir.Alloc(buffers=buffers, body=body):
            _alloc(frame, [frame.kernel.fn.buffers[name] for name in buffers], body)
        case ir.HeapAlloc(body=body):
            with heap.slots(frame, stmt):
                emit(frame, body)
        case ir.IntrinsicCall():
            with frame.statement():
                _step(frame, stmt)
        case ir.Block(name=name):
            raise CodegenError(f"{frame.kernel.fn.name}: a function must be lowered first, got the block {name}")


def store(frame: Frame, stmt: ir.Store | ir.MultiStore, lanes: Lanes | None) -> None:
    """One store, or several whose values are all known before the first is written."""
    stores = stmt.stores if isinstance(stmt, ir.MultiStore) else (stmt,)
    with frame.statement():
        values = [value(frame, inner.value, lanes) for inner in stores]
        for inner, result in zip(stores, values, strict=True):
            memory.store(frame, inner.buffer, inner.indices, result, lanes)


# --- loops -----------------------------------------------------------------------------------------------------------


def _loop(frame: Frame, loop: ir.For) -> None:
    if isinstance(loop.extent, int) and loop.extent > MAX_EXTENT:
        rule = f"loop {loop.var} must have at most {MAX_EXTENT} iterations, as its variable is an int32"
        raise CodegenError(f"{frame.kernel.fn.name}: {rule}, got {loop.extent}")
    if loop.kind is ir.LoopKind.VECTORIZE and loop.size > 1 and is_vector(loop.body):
        return _vector(frame, loop.body, Lanes(loop.var, loop.size))
    if loop.kind is ir.LoopKind.PARALLEL:
        return parallel.run(frame, loop, emit)
    if loop.extent == 1:
        with frame.bound(loop.var, frame.index(0), 0):
            return emit(frame, loop.body)
    end, largest = extent_of(frame, loop)
    if largest >= 0:
        count_up(frame, loop, frame.index(0), end, largest, lambda: emit(frame, loop.body))
    return None


def extent_of(frame: Frame, loop: ir.For) -> tuple[Value, int]:
    """The extent of a loop, and the largest value that its variable may have."""
    if isinstance(loop.extent, int):
        return frame.index(loop.extent), loop.extent - 1
    return index(frame, loop.extent), MAX_EXTENT - 1


def is_vector(stmt: ir.Stmt) -> bool:
    """Whether a statement is one that runs on all lanes at once."""
    match stmt:
        case ir.Store() | ir.MultiStore():
            return True
        case ir.If(body=body):
            return is_vector(body)
    return False


def _vector(frame: Frame, stmt: ir.Stmt, lanes: Lanes) -> None:
    if isinstance(stmt, ir.Store | ir.MultiStore):
        return store(frame, stmt, lanes)
    assert isinstance(stmt, ir.If)
    with frame.statement():
        cond = value(frame, stmt.cond, lanes)
    if lanes_of(cond) is not None:
        return _vector(frame, stmt.body, within(frame, lanes, cond))
    with frame.branch(cond, "if"):
        return _vector(frame, stmt.body, lanes)


def _step(frame: Frame, step: ir.IntrinsicCall) -> None:
    """A step of an intrinsic, or of its behaviour where the CPU has not what it takes."""
    intrinsic = step.match.intrinsic
    if intrinsic.target == "cpu" and frame.kernel.target.has(*intrinsic.requires):
        intrinsic.lower(NativeStep(frame, step.match))
        if frame.builder.block.is_terminated:
            rule = "lower must leave the builder where instructions may follow"
            raise IntrinsicError(f"intrinsic {intrinsic.name}: {rule}, got {frame.builder.block.terminator}")
    else:
        emit(frame, step.body)


# --- temporaries -----------------------------------------------------------------------------------------------------


def _alloc(frame: Frame, buffers: list[ir.Buffer], body: ir.Stmt) -> None:
    """Room at the entry of the function, whose content begins and ends with the Alloc."""
    rooms = []
    for buffer in buffers:
        kind = llvm.ArrayType(stored_type(buffer.dtype, frame.kernel.target), prod(buffer.dims))
        rooms.append(frame.on_stack(kind, buffer.name))
        frame.places[buffer.name] = Place(rooms[-1], ALIGN)
        call_intrinsic(frame.builder, "llvm.lifetime.start.p0", VOID, [rooms[-1]])
    emit(frame, body)
    for buffer, room in zip(buffers, rooms, strict=True):
        call_intrinsic(frame.builder, "llvm.lifetime.end.p0", VOID, [room])
        del frame.places[buffer.name]
