# SPDX-License-Identifier: Apache-2.0
"""From a function to an object file with a C entry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from vdla.compiler import ir
from vdla.compiler.abi import DTYPE_CODES, Argument, ExtentExpr, Signature, kernel_header
from vdla.compiler.abi.signature import EXTENT_OPERATORS
from vdla.compiler.codegen.llvm import objects
from vdla.compiler.codegen.llvm.entry import add_entry
from vdla.compiler.codegen.llvm.module import emit_module
from vdla.compiler.ir import expr_text, output_names
from vdla.compiler.lowering import HeapFootprint, heap_footprint, lower
from vdla.compiler.target import ARCHITECTURES, Target, TargetError, architecture_of
from vdla.support.errors import Error


class SignatureError(Error, ValueError):
    """A function that cannot be called from C."""


def signature_of(fn: ir.Function) -> Signature:
    """The signature of a function, scheduled or lowered.

    Raises:
        SignatureError: the name is not a C identifier, a dtype has no code, or a symbolic extent is
            not a whole dimension of any parameter.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", fn.name, re.ASCII):
        rule = "function name must be a C identifier that starts with a letter"
        raise SignatureError(f"native: {rule}, got {fn.name!r}")
    outputs = output_names(fn)
    arguments = []
    for name in fn.params:
        buffer = fn.buffers[name]
        if buffer.dtype not in DTYPE_CODES:
            choices = ", ".join(DTYPE_CODES)
            raise SignatureError(f"{fn.name}: dtype of {name} must be one of {choices}, got {buffer.dtype}")
        shape = tuple(extent_of(f"{fn.name}: extent of {name}", extent) for extent in buffer.shape)
        arguments.append(Argument(name, buffer.dtype, shape, name in outputs))
    for scalar in fn.scalars:
        if not any(scalar in argument.shape for argument in arguments):
            raise SignatureError(f"{fn.name}: {scalar} must be a whole dimension of some parameter, got none")
    return Signature(fn.name, tuple(arguments), fn.scalars)


def extent_of(where: str, extent: ir.Extent) -> ExtentExpr:
    """An extent of the IR in a signature.

    Raises:
        SignatureError: it uses an operator that signatures do not have.
    """
    match extent:
        case int():
            return extent
        case ir.Var(name=name):
            return name
        case ir.Const(value=number):
            return int(number)
        case ir.Binary(op=op, a=a, b=b) if op in EXTENT_OPERATORS:
            return op, extent_of(where, a), extent_of(where, b)
    choices = ", ".join(EXTENT_OPERATORS)
    raise SignatureError(f"{where} must use only the operators {choices}, got {expr_text(extent)}")


_NO_FOOTPRINT = HeapFootprint()


@dataclass(frozen=True, slots=True)
class NativeObject:
    """A compiled function: an object file with a C entry that depends on nothing of VDLA.

    `llvm` is the module before LLVM's passes, in LLVM's assembly language; `footprint` is the heap
    memory that the kernel allocates.
    """

    signature: Signature
    target: Target
    object: bytes
    llvm: str
    footprint: HeapFootprint = _NO_FOOTPRINT

    @property
    def name(self) -> str:
        """The C symbol of the entry."""
        return self.signature.symbol

    @property
    def parallel(self) -> bool:
        """Whether loops run on the thread pool."""
        return objects.uses_thread_pool(self.llvm)

    @property
    def header(self) -> str:
        """The C header."""
        return kernel_header(self.signature, self.parallel)

    @property
    def optimised_llvm(self) -> str:
        """The module after LLVM's passes, which run again for this."""
        return objects.optimised_llvm(self.llvm, self.target)

    @property
    def assembly(self) -> str:
        """The target's assembly; LLVM's passes run again for this."""
        return objects.assembly(self.llvm, self.target)

    def __repr__(self) -> str:
        return f"<NativeObject {self.name} for {self.target.name}, {len(self.object)} bytes>"


@dataclass(frozen=True, slots=True)
class NativeModule:
    """A function as a module of LLVM's assembly language, which LLVM has not seen.

    To make one is work of Python; `compile` is LLVM's, and may run beside it in a thread.
    """

    signature: Signature
    target: Target
    llvm: str
    footprint: HeapFootprint = _NO_FOOTPRINT

    def compile(self, *, cached: bool = True) -> NativeObject:
        """The object; `cached` takes it from the user's cache if the same module was compiled
        before.
        """
        code = objects.object_code(self.llvm, self.target, cached=cached)
        return NativeObject(self.signature, self.target, code, self.llvm, self.footprint)


def compile_native(
    fn: ir.Function, target: str | Target = "host", *, contract: bool = True, cached: bool = True
) -> NativeObject:
    """Compile a function, scheduled or not, for a CPU: a target or its name, as in `TARGETS`.

    `contract` allows a product and a sum to be fused; `cached` takes the object from the user's
    cache if the same function was compiled before.

    Raises:
        TargetError: the target is unknown, or cannot address a buffer.
        SignatureError: the function cannot be called from C.
        PassError, CodegenError: the function cannot be lowered.
    """
    return emit_native(fn, target, contract=contract).compile(cached=cached)


def emit_native(fn: ir.Function, target: str | Target = "host", *, contract: bool = True) -> NativeModule:
    """The module of a function; options and errors as of `compile_native`."""
    if not isinstance(fn, ir.Function):
        raise TargetError(f"compile_native: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")
    if not isinstance(target, str | Target):
        raise TargetError(f"compile_native: target must be a name or a Target, got {type(target).__name__}")
    machine = Target.named(target) if isinstance(target, str) else target
    if architecture_of(machine.triple) not in ARCHITECTURES:  # which also refuses an unknown one
        raise TargetError(f"compile_native: target must be a CPU, got {machine.name}")
    signature = signature_of(fn)
    lowered = lower(fn, machine)
    module = emit_module(lowered, machine, contract)
    add_entry(module, signature, machine)
    return NativeModule(signature, machine, str(module), heap_footprint(lowered))


def compile_module(module: Any, signature: Signature, target: Target, *, cached: bool = True) -> NativeObject:  # noqa: ANN401
    """The object of a module that holds a kernel's body; adds the C entry to the module."""
    add_entry(module, signature, target)
    return NativeModule(signature, target, str(module)).compile(cached=cached)
