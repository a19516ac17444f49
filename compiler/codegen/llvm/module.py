"""A lowered function as an LLVM module: `<name>__body`, and a function for each parallel loop.

`i32 <name>__body(a pointer to the data of each parameter, then an i64 for each scalar)` gives 0, or NO_MEMORY. It
trusts its arguments: pointers are aligned to an element, parameters do not overlap, scalars are at least 1.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import MAX_EXTENT
from vdla.compiler.codegen.llvm.attributes import Attributes, describe
from vdla.compiler.codegen.llvm.expressions import value
from vdla.compiler.codegen.llvm.function_builder import Frame, Kernel, Place, begin
from vdla.compiler.codegen.llvm.statements import emit as emit_statement
from vdla.compiler.codegen.llvm.types import I32, I64, POINTER, nbytes
from vdla.compiler.target import Target

NO_MEMORY = 1


def body_name(name: str) -> str:
    """The function that does the work of the kernel `name`."""
    return f"{name}__body"


def emit(fn: ir.Function, target: Target, contract: bool) -> Any:  # noqa: ANN401  an llvmlite module
    """The module of a lowered function; with `contract`, a product and a sum may become one fused operation.

    Raises:
        CodegenError: the function is not in the lowered form, or a loop is longer than its variable counts.
        TargetError: a buffer is larger than what the target can address.
    """
    module = llvm.Module(fn.name)
    module.triple = target.triple
    kernel = Kernel(fn, target, contract, module)
    frame = _begin(kernel)
    emit_statement(frame, fn.body)
    frame.builder.ret(I32(0))
    return module


def _begin(kernel: Kernel) -> Frame:
    """The frame of the body, with its parameters and scalars known."""
    fn = kernel.fn
    kind = llvm.FunctionType(I32, [POINTER] * len(fn.params) + [I64] * len(fn.scalars))
    function = llvm.Function(kernel.module, kind, body_name(fn.name))
    function.attributes = Attributes(kernel.target)
    frame = Frame(kernel, function, begin(function), _fail, value)
    for name, argument in zip(fn.params, function.args, strict=False):
        buffer = fn.buffers[name]
        describe(argument, nbytes(buffer.dtype))
        size = kernel.nbytes(buffer)
        if all(isinstance(extent, int) for extent in buffer.shape):
            argument.attributes.dereferenceable = size
        frame.places[name] = Place(argument, nbytes(buffer.dtype))
    for name, argument in zip(fn.scalars, function.args[len(fn.params) :], strict=True):
        narrow = kernel.index != I64
        frame.variables[name] = frame.builder.trunc(argument, kernel.index) if narrow else argument
        frame.ranges[name] = (1, MAX_EXTENT)
    return frame


def _fail(frame: Frame) -> None:
    frame.builder.ret(I32(NO_MEMORY))
