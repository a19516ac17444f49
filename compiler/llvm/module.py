"""A lowered function as an LLVM module: `<name>__body`, and a function for each parallel loop.

`i32 <name>__body(a pointer to the data of each parameter, then an i64 for each scalar)` gives 0, or NO_MEMORY. It
trusts its arguments: pointers are aligned to an element, parameters do not overlap, scalars are at least 1.
"""

from __future__ import annotations

from math import prod
from typing import Any

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.llvm.expressions import value
from vdla.compiler.llvm.frame import MAX_EXTENT, Frame, Kernel, Place, begin
from vdla.compiler.llvm.objects import Machine
from vdla.compiler.llvm.statements import emit as emit_statement
from vdla.compiler.llvm.types import I32, I64, POINTER, Value, nbytes
from vdla.compiler.target import Target

NO_MEMORY = 1


def body_name(name: str) -> str:
    """The function that does the work of the kernel `name`."""
    return f"{name}__body"


def emit(fn: ir.Function, target: Target, contract: bool) -> Any:  # noqa: ANN401  an llvmlite module
    """The module of a lowered function; with `contract`, a product and a sum may become one fused operation.

    Raises:
        CodegenError: the function is not in the lowered form.
    """
    module = llvm.Module(fn.name)
    module.triple = target.triple
    kernel = Kernel(fn, target, contract, module, apart(module, fn))
    frame = _begin(kernel)
    emit_statement(frame, fn.body)
    frame.builder.ret(I32(0))
    return module


def apart(module: Value, fn: ir.Function) -> dict[str, dict[str, Value]]:
    """For each buffer, the metadata that says of an access that it is of no other buffer."""
    domain = module.add_metadata([f"buffers of {fn.name}"])
    scopes = {name: module.add_metadata([f"{name} of {fn.name}", domain]) for name in fn.buffers}
    return {
        name: {
            "alias.scope": module.add_metadata([scope]),
            "noalias": module.add_metadata([other for other in scopes.values() if other is not scope]),
        }
        for name, scope in scopes.items()
    }


def _begin(kernel: Kernel) -> Frame:
    """The frame of the body, with its parameters and scalars known."""
    fn = kernel.fn
    kind = llvm.FunctionType(I32, [POINTER] * len(fn.params) + [I64] * len(fn.scalars))
    function = llvm.Function(kernel.module, kind, body_name(fn.name))
    function.attributes = Attributes(kernel.target)
    frame = Frame(kernel, function, begin(function), _fail, value)
    for name, argument in zip(fn.params, function.args, strict=False):
        describe(argument, fn.buffers[name])
        frame.places[name] = Place(argument, nbytes(fn.buffers[name].dtype))
    for name, argument in zip(fn.scalars, function.args[len(fn.params) :], strict=True):
        narrow = kernel.index != I64
        frame.variables[name] = frame.builder.trunc(argument, kernel.index) if narrow else argument
        frame.ranges[name] = (1, MAX_EXTENT)
    return frame


def describe(argument: Value, buffer: ir.Buffer) -> None:
    """What the caller promises of the pointer to a parameter."""
    argument.name = buffer.name
    argument.attributes.add("noalias")
    argument.attributes.add("nonnull")
    argument.attributes.align = nbytes(buffer.dtype)
    if all(isinstance(extent, int) for extent in buffer.shape):
        argument.attributes.dereferenceable = nbytes(buffer.dtype) * prod(buffer.dims)


def _fail(frame: Frame) -> None:
    frame.builder.ret(I32(NO_MEMORY))


class Attributes(llvm.FunctionAttributes):  # type: ignore[misc]  # llvmlite has no types
    """The attributes of every function: what the CPU can do, and how wide its vectors should be."""

    def __init__(self, target: Target) -> None:
        words = [f'"target-cpu"="{target.cpu}"', f'"prefer-vector-width"="{8 * target.vector_bytes}"']
        words.append(f'"target-features"="{Machine.of(target).features}"')
        self._known = frozenset([*super()._known, *words])
        super().__init__(["nounwind", *words])
