# SPDX-License-Identifier: Apache-2.0
"""Heap temporaries: the C library's `aligned_alloc` and `free`; failure ends the function.

Each slot is an allocation of its own, which tells LLVM that buffers live at one time do not alias.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.addresses import emit_index
from vdla.compiler.codegen.llvm.function_builder import ALIGN, BaseAddress, FunctionBuilder
from vdla.compiler.codegen.llvm.types import POINTER, VOID, Value


@contextmanager
def allocate_slots(fb: FunctionBuilder, stmt: ir.HeapAlloc) -> Iterator[None]:
    """Allocates the slots of `stmt` on entry and frees them on exit; defines its buffers inside."""
    held = []
    for slot in stmt.slots:
        held.append(_allocate(fb, fb.buffers[slot[0]]))
        fb.allocations.append(held[-1])
        fb.bases.update({name: BaseAddress(held[-1], ALIGN) for name in slot})
    yield
    for pointer in reversed(held):
        fb.allocations.pop()
        _free(fb, pointer)
    for name in (name for slot in stmt.slots for name in slot):
        del fb.bases[name]


def fail_if(fb: FunctionBuilder, condition: Value, failed: str, passed: str) -> None:
    """Free what is allocated and return an error if a condition holds; names of the two blocks."""
    failure, success = fb.block(failed), fb.block(passed)
    fb.builder.cbranch(condition, failure, success)
    fb.builder.position_at_end(failure)
    for pointer in reversed(fb.allocations):
        _free(fb, pointer)
    fb.return_error(fb)
    fb.builder.position_at_end(success)


def _allocate(fb: FunctionBuilder, buffer: ir.Buffer) -> Value:
    """The address of memory for `buffer`; the function fails if it cannot be allocated."""
    kind = llvm.FunctionType(POINTER, [fb.index_type, fb.index_type])
    arguments = [fb.index(ALIGN), _padded_size(fb, buffer)]
    pointer = fb.builder.call(_library_function(fb, "aligned_alloc", kind), arguments)
    is_null = fb.builder.icmp_unsigned("==", pointer, llvm.Constant(POINTER, None))
    fail_if(fb, is_null, "no_memory", "allocated")
    return pointer


def _free(fb: FunctionBuilder, pointer: Value) -> None:
    fb.builder.call(_library_function(fb, "free", llvm.FunctionType(VOID, [POINTER])), [pointer])


def _padded_size(fb: FunctionBuilder, buffer: ir.Buffer) -> Value:
    """The bytes of a buffer, rounded up to ALIGN for `aligned_alloc`; saturates on overflow."""
    most, size = fb.index(-ALIGN), fb.index(fb.kernel.nbytes(buffer))
    for extent in buffer.shape:
        if not isinstance(extent, int):
            both = fb.builder.umul_with_overflow(size, emit_index(fb, extent))
            product, overflows = (fb.builder.extract_value(both, field) for field in (0, 1))
            size = fb.builder.select(overflows, most, product)
    size = fb.builder.select(fb.builder.icmp_unsigned(">", size, most), most, size)
    return fb.builder.and_(fb.builder.add(size, fb.index(ALIGN - 1)), most)


def _library_function(fb: FunctionBuilder, name: str, kind: Value) -> Value:
    entry = fb.kernel.module.globals.get(name)
    if entry is not None:
        return entry
    function = llvm.Function(fb.kernel.module, kind, name)
    if kind.return_type == POINTER:
        function.return_value.attributes.add("noalias")
    return function
