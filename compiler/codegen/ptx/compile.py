"""From a scheduled function to PTX, and how to launch it."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import Argument, Launch, Signature
from vdla.compiler.codegen.grid_arrays import check_elements, temporaries_of
from vdla.compiler.codegen.llvm import signature_of
from vdla.compiler.codegen.llvm.objects import assembly
from vdla.compiler.codegen.ptx.architectures import target_of
from vdla.compiler.codegen.ptx.errors import PtxError
from vdla.compiler.codegen.ptx.kernel_code import add_kernel
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits


@dataclass(frozen=True, slots=True)
class PtxSource:
    """A function in PTX for the architecture `arch`: kernels that run in the order of `launches`.

    A kernel takes a pointer for each buffer of its launch, aligned to 16 bytes, then an int32 for
    each symbolic extent. `temporaries` are the arrays in device memory that exist during a call;
    `llvm` is the module that LLVM wrote the text from, in its assembly language.
    """

    signature: Signature
    text: str
    launches: tuple[Launch, ...]
    temporaries: tuple[Argument, ...]
    arch: str
    llvm: str = ""

    def __str__(self) -> str:
        return self.text.rstrip()


def emit_ptx(fn: ir.Function, limits: GridLimits, arch: str = "sm_80", *, contract: bool = True) -> PtxSource:
    """The PTX of a function, scheduled by `bind` or not, for a GPU of these limits.

    `contract` allows a product and a sum to be fused.

    Raises:
        SignatureError: the function cannot be called with arrays.
        PassError: the schedule asks for the impossible, or for more than the device has.
        PtxError: the architecture is unknown, or an array exceeds what a kernel can hold.
    """
    target, signature = target_of(arch), signature_of(fn)
    kernels = lower_kernels(fn, limits)
    check_elements(fn, kernels, PtxError)
    module = llvm.Module(fn.name)
    module.triple = target.triple
    launches = tuple(add_kernel(module, fn, kernel, target, contract) for kernel in kernels)
    text = str(module)
    return PtxSource(signature, assembly(text, target), launches, temporaries_of(fn, kernels), arch, text)
