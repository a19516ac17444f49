"""From a function to an object file with a C entry, in one call; what comes out needs nothing of VDLA any more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vdla.compiler import ir
from vdla.compiler.abi import Signature, kernel_header
from vdla.compiler.codegen.llvm import objects
from vdla.compiler.codegen.llvm.entry import add_entry
from vdla.compiler.codegen.llvm.function_signature import signature_of
from vdla.compiler.lowering.heap_slots import Footprint, footprint
from vdla.compiler.target import Target, TargetError, architecture_of, target_named

NO_FOOTPRINT = Footprint()


@dataclass(frozen=True, slots=True)
class NativeObject:
    """A compiled function. `llvm` is its module before LLVM's passes, in LLVM's assembly language; `footprint` is the
    heap that it needs."""

    signature: Signature
    target: Target
    object: bytes
    llvm: str
    footprint: Footprint = NO_FOOTPRINT

    @property
    def name(self) -> str:
        """The symbol of the entry."""
        return self.signature.symbol

    @property
    def parallel(self) -> bool:
        """Whether it has loops that run on the thread pool."""
        return objects.module_is_parallel(self.llvm)

    @property
    def header(self) -> str:
        """The C header."""
        return kernel_header(self.signature, self.parallel)

    @property
    def optimised(self) -> str:
        """The module after LLVM's passes; they run again for this."""
        return objects.optimised(self.llvm, self.target)

    @property
    def assembly(self) -> str:
        """The target's assembly; the passes run again for this."""
        return objects.assembly(self.llvm, self.target)

    def __repr__(self) -> str:
        return f"<NativeObject {self.name} for {self.target.name}, {len(self.object)} bytes>"


def compile_native(
    fn: ir.Function, target: str | Target = "host", *, contract: bool = True, cached: bool = True
) -> NativeObject:
    """The machine code of a function, scheduled or not, for a target.

    `contract` lets a product and a sum become one fused operation; `cached` takes the object from the user's cache if
    it was compiled before.

    Raises:
        TargetError, SignatureError: there is no such target, or a buffer is larger than what it can address; or C has
            no words for the function.
        PassError, CodegenError: the function cannot be lowered; the pass and the place are named.
    """
    if not isinstance(fn, ir.Function):
        raise TargetError(f"compile_native: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")
    from vdla.compiler.codegen.llvm.module import emit
    from vdla.compiler.lowering import lower

    if not isinstance(target, str | Target):
        raise TargetError(f"compile_native: target must be a name or a Target, got {type(target).__name__}")
    machine = target_named(target) if isinstance(target, str) else target
    architecture_of(machine.triple)  # refuses what there is no pool for
    signature = signature_of(fn)
    lowered = lower(fn, machine)
    built = from_module(emit(lowered, machine, contract), signature, machine, cached=cached)
    return replace(built, footprint=footprint(lowered))


def from_module(module: Any, signature: Signature, target: Target, *, cached: bool = True) -> NativeObject:  # noqa: ANN401
    """The object of a module that holds the body of a kernel; adds the entry to it."""
    add_entry(module, signature, target)
    text = str(module)
    return NativeObject(signature, target, objects.object_code(text, target, cached=cached), text)
