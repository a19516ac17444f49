"""Temporaries on the heap: the C library's `aligned_alloc` and `free`; a failure frees what is held and leaves.

Each slot is an allocation of its own, so that LLVM knows that what is needed at one time lies apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.addresses import index
from vdla.compiler.codegen.llvm.function_builder import ALIGN, Frame, Place
from vdla.compiler.codegen.llvm.types import POINTER, VOID, Value


@contextmanager
def slots(frame: Frame, stmt: ir.HeapAlloc) -> Iterator[None]:
    """The buffers of `stmt` have their places inside."""
    held = []
    for slot in stmt.slots:
        held.append(allocate(frame, frame.kernel.fn.buffers[slot[0]]))
        frame.heap.append(held[-1])
        frame.places.update({name: Place(held[-1], ALIGN) for name in slot})
    yield
    for address in reversed(held):
        frame.heap.pop()
        free(frame, address)
    for name in (name for slot in stmt.slots for name in slot):
        del frame.places[name]


def allocate(frame: Frame, buffer: ir.Buffer) -> Value:
    """The address of room for `buffer`; the function fails where there is none."""
    kind = llvm.FunctionType(POINTER, [frame.kernel.index, frame.kernel.index])
    arguments = [frame.index(ALIGN), _whole_lines(frame, buffer)]
    room = frame.builder.call(_function(frame, "aligned_alloc", kind), arguments)
    missing = frame.builder.icmp_unsigned("==", room, llvm.Constant(POINTER, None))
    failed, going_on = frame.block("no_memory"), frame.block("allocated")
    frame.builder.cbranch(missing, failed, going_on)
    frame.builder.position_at_end(failed)
    leave(frame)
    frame.builder.position_at_end(going_on)
    return room


def free(frame: Frame, room: Value) -> None:
    """Give back what `allocate` gave."""
    frame.builder.call(_function(frame, "free", llvm.FunctionType(VOID, [POINTER])), [room])


def leave(frame: Frame) -> None:
    """End the function for want of memory; what it holds is freed first."""
    for held in reversed(frame.heap):
        free(frame, held)
    frame.fail(frame)


def _whole_lines(frame: Frame, buffer: ir.Buffer) -> Value:
    """The bytes of the buffer, rounded up to ALIGN, which `aligned_alloc` wants; more than there can be if too many."""
    most, size = frame.index(-ALIGN), frame.index(frame.kernel.nbytes(buffer))
    for extent in buffer.shape:
        if not isinstance(extent, int):
            both = frame.builder.umul_with_overflow(size, index(frame, extent))
            product, overflows = (frame.builder.extract_value(both, place) for place in (0, 1))
            size = frame.builder.select(overflows, most, product)
    size = frame.builder.select(frame.builder.icmp_unsigned(">", size, most), most, size)
    return frame.builder.and_(frame.builder.add(size, frame.index(ALIGN - 1)), most)


def _function(frame: Frame, name: str, kind: Value) -> Value:
    found = frame.kernel.module.globals.get(name)
    if found is not None:
        return found
    function = llvm.Function(frame.kernel.module, kind, name)
    if kind.return_type == POINTER:
        function.return_value.attributes.add("noalias")
    return function
