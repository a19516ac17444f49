"""A PARALLEL loop: its body as a function of its own, `void (closure, begin, end)`, which the pool calls for pieces.

The closure is everything that the body may name: an error flag, where the buffers begin, and the values of the scalars
and of the loops around. A piece that gets no memory sets the flag; the loop fails when all pieces have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import MAX_EXTENT
from vdla.compiler.codegen.llvm.addresses import index
from vdla.compiler.codegen.llvm.attributes import Attributes, describe
from vdla.compiler.codegen.llvm.function_builder import Frame, Place, begin
from vdla.compiler.codegen.llvm.heap import leave, slots
from vdla.compiler.codegen.llvm.loops import count_up
from vdla.compiler.codegen.llvm.pool import PARALLEL
from vdla.compiler.codegen.llvm.types import I32, I64, POINTER, VOID, Type, Value

Emit = Callable[[Frame, ir.Stmt], None]


def run(frame: Frame, loop: ir.For, emit: Emit) -> None:
    """Call the pool for the whole loop, and fail if it or a piece failed."""
    kind = closure_type(frame)
    closure = frame.on_stack(kind, "closure")
    fill(frame, closure, kind)
    body = outline(frame, loop, kind, emit)
    arguments = [body, closure, _extent(frame, loop)]
    status = frame.builder.call(_pool(frame), arguments)
    flag = frame.builder.load(closure, typ=I32)
    bad = frame.builder.icmp_unsigned("!=", frame.builder.or_(status, flag), I32(0))
    failed, after = frame.block("failed"), frame.block("done")
    frame.builder.cbranch(bad, failed, after)
    frame.builder.position_at_end(failed)
    leave(frame)
    frame.builder.position_at_end(after)


def closure_type(frame: Frame) -> Type:
    """The flag, a pointer a buffer, and an index a variable, in the order of the frame."""
    numbers = [frame.kernel.index for _ in frame.variables]
    return llvm.LiteralStructType([I32, *(POINTER for _ in frame.places), *numbers])


def _field(builder: Value, closure: Value, kind: Type, place: int) -> Value:
    return builder.gep(closure, [I32(0), I32(place)], inbounds=True, source_etype=kind)


def fill(frame: Frame, closure: Value, kind: Type) -> None:
    """Store what the body may name."""
    values = [I32(0), *(place.pointer for place in frame.places.values()), *frame.variables.values()]
    for number, value in enumerate(values):
        frame.builder.store(value, _field(frame.builder, closure, kind, number))


def outline(frame: Frame, loop: ir.For, kind: Type, emit: Emit) -> Value:
    """The function that the pool calls: what is in the closure becomes the arguments of the body."""
    work = _body(frame, loop, kind, emit)
    function = _function(frame, f"{work.name}.piece", [POINTER, I64, I64])
    builder, closure = begin(function), function.args[0]
    fields = [
        builder.load(_field(builder, closure, kind, number), typ=kind.elements[number])
        for number in range(1, len(kind.elements))
    ]
    builder.call(work, [*function.args, *fields])
    builder.ret_void()
    return function


def _body(frame: Frame, loop: ir.For, kind: Type, emit: Emit) -> Value:
    """The body for a part of the loop; buffers are arguments, of which LLVM can be told that they are apart."""
    name = f"{frame.function.name}.{loop.var}"
    function = _function(frame, name, [POINTER, I64, I64, *kind.elements[1:]])
    function.attributes.add("noinline")
    first, last, *fields = function.args[1:]
    inner = Frame(frame.kernel, function, begin(function), _fail, frame.value)
    for (buffer, place), pointer in zip(frame.places.items(), fields, strict=False):
        describe(pointer, place.align)
        inner.places[buffer] = Place(pointer, place.align)
    inner.variables = dict(zip(frame.variables, fields[len(frame.places) :], strict=True))
    inner.ranges = dict(frame.ranges)
    part = _index(inner, first), _index(inner, last)
    if isinstance(loop.body, ir.HeapAlloc):  # one for all iterations
        with slots(inner, loop.body):
            count_up(inner, loop, *part, _largest(loop), partial(emit, inner, loop.body.body))
    else:
        count_up(inner, loop, *part, _largest(loop), partial(emit, inner, loop.body))
    inner.builder.ret_void()
    return function


def _function(frame: Frame, name: str, kinds: list[Type]) -> Value:
    """An internal function for the same CPU."""
    module = frame.kernel.module
    function = llvm.Function(module, llvm.FunctionType(VOID, kinds), module.get_unique_name(name))
    function.linkage, function.attributes = "internal", Attributes(frame.kernel.target)
    return function


def _fail(frame: Frame) -> None:
    """A piece without memory: say so to the one who called the pool."""
    closure = frame.function.args[0]
    frame.builder.atomic_rmw("or", closure, I32(1), "monotonic")
    frame.builder.ret_void()


def _largest(loop: ir.For) -> int:
    return loop.extent - 1 if isinstance(loop.extent, int) else MAX_EXTENT - 1


def _extent(frame: Frame, loop: ir.For) -> Value:
    if isinstance(loop.extent, int):
        return I64(loop.extent)
    extent = index(frame, loop.extent)
    return extent if extent.type == I64 else frame.builder.sext(extent, I64)


def _index(frame: Frame, number: Value) -> Value:
    return number if number.type == frame.kernel.index else frame.builder.trunc(number, frame.kernel.index)


def _pool(frame: Frame) -> Value:
    found = frame.kernel.module.globals.get(PARALLEL)
    kind = llvm.FunctionType(I32, [POINTER, POINTER, I64])
    return found if found is not None else llvm.Function(frame.kernel.module, kind, PARALLEL)
