# SPDX-License-Identifier: Apache-2.0
"""From a scheduled function to PTX, and how to launch it.

A kernel is a function of an LLVM module that one thread runs. Pointers are of the generic address
space in the code; LLVM finds from their origin (a parameter, a shared array, a slot of the stack)
which loads and stores are of global, shared or local memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import Argument, Launch, Signature, element_bytes
from vdla.compiler.arith import last_value, scalar_ranges
from vdla.compiler.codegen.grid_arrays import check_elements, groups_of, temporaries_of
from vdla.compiler.codegen.llvm import signature_of
from vdla.compiler.codegen.llvm.expressions import evaluate
from vdla.compiler.codegen.llvm.function_builder import BaseAddress, FunctionBuilder, KernelModule, start
from vdla.compiler.codegen.llvm.objects import assembly
from vdla.compiler.codegen.llvm.statements import emit
from vdla.compiler.codegen.llvm.types import I8, I32, POINTER, VOID, Value, call_intrinsic, stored_type
from vdla.compiler.codegen.ptx.architectures import PtxError, target_of
from vdla.compiler.codegen.ptx.gpu_rules import GpuRules, reads, writes
from vdla.compiler.ir import BLOCK_AXES, GridKernel
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.lowering.legalise import legalise
from vdla.compiler.target import GridLimits, Target


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


# --- one kernel -----------------------------------------------------------------------------------

ALIGN = 16
"""Bytes; of all arrays, for loads of 128 bits."""
STATIC_SHARED_BYTES = 48 * 1024
"""What a kernel may declare itself; a launch must ask for more."""
LOCAL_BYTES = 512 * 1024
"""The largest array of one thread."""
_GLOBAL, _SHARED = 1, 3  # address spaces
_DEVICE_POINTER = llvm.PointerType(addrspace=_GLOBAL)


def add_kernel(module: Value, fn: ir.Function, kernel: GridKernel, target: Target, contract: bool) -> Launch:
    """Add a kernel of `fn` to `module`; how to launch it.

    Raises:
        PtxError: an array of one thread is too large.
    """
    _check_local(kernel)
    symbol = f"{kernel.name}_kernel"
    function_of_thread = ir.Function(kernel.name, kernel.params, kernel.buffers, kernel.body, kernel.scalars)
    code = KernelModule(fn=function_of_thread, target=target, contract=contract, module=module, rules=GpuRules())
    fb = _start(code, kernel, symbol)
    _define_axes(fb, fn, kernel)
    dynamic = _define_shared(fb, kernel, symbol)
    emit(fb, legalise(kernel.body, kernel.buffers))
    fb.builder.ret_void()
    return Launch(symbol, kernel.params, kernel.scalars, groups_of(fn, kernel), kernel.block, dynamic)


def _check_local(kernel: GridKernel) -> None:
    """Refuse an array of one thread that no thread can hold."""
    for buffer in kernel.buffers.values():
        if buffer.scope != "local":
            continue
        size = prod(buffer.dims) * element_bytes(buffer.dtype)
        if size > LOCAL_BYTES:
            rule = f"an array of one thread must have at most {LOCAL_BYTES} bytes"
            raise PtxError(f"{kernel.name}: {rule}, got {size} of {buffer.name}")


def _start(code: KernelModule, kernel: GridKernel, symbol: str) -> FunctionBuilder:
    """The builder of the kernel, with its parameters defined."""
    size = ",".join(map(str, kernel.block))
    parameters = [_DEVICE_POINTER] * len(kernel.params) + [I32] * len(kernel.scalars)
    # One block on a processor suffices: else ptxas spills to make room for those of several.
    attributes = (f'"nvvm.reqntid"="{size}"', '"nvvm.minctasm"="1"')
    function = code.add_function(symbol, VOID, parameters, *attributes)
    function.calling_convention = "ptx_kernel"
    fb = FunctionBuilder(
        kernel=code, function=function, builder=start(function), return_error=_never_fails, evaluate=evaluate
    )
    read = {load.buffer for load in reads(kernel.body)}
    written = {store.buffer for store in writes(kernel.body)}
    for name, argument in zip(kernel.params, function.args, strict=False):
        argument.attributes.align = ALIGN
        if not (name in read and name in written):  # else other threads change what this one reads
            argument.attributes.add("noalias")
        fb.bases[name] = BaseAddress(fb.builder.addrspacecast(argument, POINTER), ALIGN)
    for name, argument in zip(kernel.scalars, function.args[len(kernel.params) :], strict=True):
        fb.variables[name] = argument
    return fb


def _never_fails(fb: FunctionBuilder) -> None:
    raise AssertionError("a kernel allocates nothing")


def _define_axes(fb: FunctionBuilder, fn: ir.Function, kernel: GridKernel) -> None:
    """The numbers of the block and of the thread, with the bounds of all variables."""
    fb.ranges.update(scalar_ranges(fn))
    for axis, extent in kernel.extents.items():
        fb.ranges[axis] = (0, last_value(extent, fb.ranges))
        if extent == 1:
            fb.variables[axis] = I32(0)
            continue
        register = "ctaid" if axis in BLOCK_AXES else "tid"
        fb.variables[axis] = call_intrinsic(fb.builder, f"llvm.nvvm.read.ptx.sreg.{register}.{axis[-1]}", I32)


def _define_shared(fb: FunctionBuilder, kernel: GridKernel, symbol: str) -> int:
    """The arrays of the block; the bytes of them that a launch must ask for."""
    sizes = {b.name: prod(b.dims) * element_bytes(b.dtype) for b in kernel.shared}
    padded = {name: -(-size // ALIGN) * ALIGN for name, size in sizes.items()}
    if sum(padded.values()) <= STATIC_SHARED_BYTES:
        for buffer in kernel.shared:
            kind = llvm.ArrayType(stored_type(buffer.dtype, fb.target), prod(buffer.dims))
            fb.bases[buffer.name] = BaseAddress(_shared_array(fb, f"{symbol}_{buffer.name}", kind), ALIGN)
        return 0
    whole = _shared_array(fb, f"{symbol}_shared", llvm.ArrayType(I8, 0))
    offset = 0
    for name, size in padded.items():
        address = fb.builder.gep(whole, [I32(offset)], inbounds=True, source_etype=I8)
        fb.bases[name] = BaseAddress(address, ALIGN)
        offset += size
    return offset


def _shared_array(fb: FunctionBuilder, name: str, kind: Value) -> Value:
    """The address of a new array of the block; one of no elements is what the launch asks for."""
    array = llvm.GlobalVariable(fb.kernel.module, kind, fb.kernel.module.get_unique_name(name), addrspace=_SHARED)
    array.align = ALIGN
    if kind.count:
        array.linkage, array.initializer = "internal", llvm.Constant(kind, llvm.Undefined)
    return fb.builder.addrspacecast(array, POINTER)
