# SPDX-License-Identifier: Apache-2.0
"""A PARALLEL loop: its body becomes a function `void (closure, begin, end)`, called per chunk.

The closure holds all that the body may use: an error flag, the base addresses of buffers, and the
values of scalars and enclosing loop variables. A chunk whose allocation fails sets the flag; the
loop fails once all chunks have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import MAX_EXTENT
from vdla.compiler.codegen.llvm.addresses import emit_index
from vdla.compiler.codegen.llvm.function_builder import BaseAddress, FunctionBuilder, set_buffer_attributes, start
from vdla.compiler.codegen.llvm.heap import allocate_slots, fail_if
from vdla.compiler.codegen.llvm.loops import count_up
from vdla.compiler.codegen.llvm.objects import PARALLEL_SYMBOL
from vdla.compiler.codegen.llvm.types import I32, I64, POINTER, VOID, Type, Value

EmitStatement = Callable[[FunctionBuilder, ir.Stmt], None]


def emit_parallel_loop(fb: FunctionBuilder, loop: ir.For, emit: EmitStatement) -> None:
    """Runs the loop on the pool; the function fails if the pool or a chunk failed."""
    kind = _closure_type(fb)
    closure = fb.stack_slot(kind, "closure")
    _fill_closure(fb, closure, kind)
    chunk = _outline(fb, loop, kind, emit)
    status = fb.builder.call(_pool(fb), [chunk, closure, _extent(fb, loop)])
    flag = fb.builder.load(closure, typ=I32)
    bad = fb.builder.icmp_unsigned("!=", fb.builder.or_(status, flag), I32(0))
    fail_if(fb, bad, "failed", "done")


def _closure_type(fb: FunctionBuilder) -> Type:
    """The error flag, a pointer per buffer, an index per variable, in the builder's order."""
    variables = [fb.index_type for _ in fb.variables]
    return llvm.LiteralStructType([I32, *(POINTER for _ in fb.bases), *variables])


def _field(builder: Value, closure: Value, kind: Type, number: int) -> Value:
    return builder.gep(closure, [I32(0), I32(number)], inbounds=True, source_etype=kind)


def _fill_closure(fb: FunctionBuilder, closure: Value, kind: Type) -> None:
    values = [I32(0), *(base.pointer for base in fb.bases.values()), *fb.variables.values()]
    for number, value in enumerate(values):
        fb.builder.store(value, _field(fb.builder, closure, kind, number))


def _outline(fb: FunctionBuilder, loop: ir.For, kind: Type, emit: EmitStatement) -> Value:
    """The function that the pool calls: loads the closure's fields and passes them to the body."""
    body = _body(fb, loop, kind, emit)
    function = _internal_function(fb, f"{body.name}.piece", [POINTER, I64, I64])
    builder, closure = start(function), function.args[0]
    fields = [
        builder.load(_field(builder, closure, kind, number), typ=kind.elements[number])
        for number in range(1, len(kind.elements))
    ]
    builder.call(body, [*function.args, *fields])
    builder.ret_void()
    return function


def _body(fb: FunctionBuilder, loop: ir.For, kind: Type, emit: EmitStatement) -> Value:
    """The body for a chunk. Buffers are parameters, since only these can be `noalias`."""
    name = f"{fb.function.name}.{loop.var}"
    function = _internal_function(fb, name, [POINTER, I64, I64, *kind.elements[1:]])
    function.attributes.add("noinline")
    first, last, *fields = function.args[1:]
    inner = FunctionBuilder(
        kernel=fb.kernel, function=function, builder=start(function), return_error=_set_error_flag, evaluate=fb.evaluate
    )
    for (buffer, base), pointer in zip(fb.bases.items(), fields, strict=False):
        set_buffer_attributes(pointer, base.align)
        inner.bases[buffer] = BaseAddress(pointer, base.align)
    inner.variables = dict(zip(fb.variables, fields[len(fb.bases) :], strict=True))
    inner.ranges = dict(fb.ranges)
    chunk = _to_index(inner, first), _to_index(inner, last)
    if isinstance(loop.body, ir.HeapAlloc):  # allocated once per chunk
        with allocate_slots(inner, loop.body):
            count_up(inner, loop, *chunk, _largest(loop), partial(emit, inner, loop.body.body))
    else:
        count_up(inner, loop, *chunk, _largest(loop), partial(emit, inner, loop.body))
    inner.builder.ret_void()
    return function


def _internal_function(fb: FunctionBuilder, name: str, parameters: list[Type]) -> Value:
    function = fb.kernel.add_function(fb.kernel.module.get_unique_name(name), VOID, parameters)
    function.linkage = "internal"
    return function


def _set_error_flag(fb: FunctionBuilder) -> None:
    """Ends a chunk after a failed allocation."""
    closure = fb.function.args[0]
    fb.builder.atomic_rmw("or", closure, I32(1), "monotonic")
    fb.builder.ret_void()


def _largest(loop: ir.For) -> int:
    return loop.extent - 1 if isinstance(loop.extent, int) else MAX_EXTENT - 1


def _extent(fb: FunctionBuilder, loop: ir.For) -> Value:
    if isinstance(loop.extent, int):
        return I64(loop.extent)
    extent = emit_index(fb, loop.extent)
    return extent if extent.type == I64 else fb.builder.sext(extent, I64)


def _to_index(fb: FunctionBuilder, number: Value) -> Value:
    return number if number.type == fb.index_type else fb.builder.trunc(number, fb.index_type)


def _pool(fb: FunctionBuilder) -> Value:
    entry = fb.kernel.module.globals.get(PARALLEL_SYMBOL)
    kind = llvm.FunctionType(I32, [POINTER, POINTER, I64])
    return entry if entry is not None else llvm.Function(fb.kernel.module, kind, PARALLEL_SYMBOL)
