# SPDX-License-Identifier: Apache-2.0
"""Modules of PTX on a CUDA device, compiled by the driver, and the kernels in them."""

from __future__ import annotations

from ctypes import addressof, c_int, c_void_p, create_string_buffer
from dataclasses import dataclass
from math import prod

from vdla.compiler.abi import Launch
from vdla.runtime.grid.cuda_context import CudaContext, Owned
from vdla.runtime.grid.cuda_driver import CudaDeviceError, FunctionAttribute, JitOption

_LOG_BYTES = 16 * 1024
_STATIC_SHARED_BYTES = 48 * 1024  # beyond it, a kernel must be allowed more


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A function of a module, and the threads and the shared memory of a block of it."""

    module: CudaModule
    handle: int | None
    name: str
    threads: tuple[int, ...]
    shared_bytes: int


class CudaModule:
    """A text of PTX in a context."""

    def __init__(self, context: CudaContext, text: str) -> None:
        log = create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(JitOption.ERROR_LOG_BUFFER, JitOption.ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (c_void_p * 2)(addressof(log), _LOG_BYTES)
        make = "cuModuleLoadDataEx", c_void_p(), text.encode("ascii"), len(options), options, values
        rule = f"cuda: {context.name} must load the module"
        self._context = context
        try:  # a kernel of it may still run when it is released
            self._owned = Owned(context, rule, *make, release="cuModuleUnload", synchronize=True)
        except CudaDeviceError as error:
            raise CudaDeviceError(f"{error}{_first_error(log.value)}") from None

    def kernel(self, launch: Launch) -> CudaKernel:
        """The kernel of a launch, with its shared memory allowed.

        Raises:
            CudaDeviceError: the module has none of that name, or a block needs more than there is.
        """
        context, handle, most, name = self._context, c_void_p(), c_int(), launch.kernel
        context.properties.check_threads(name, launch.threads)
        rule = f"{name}: {context.name} must load it"
        context.call(rule, "cuModuleGetFunction", handle, self._owned.handle, name.encode("ascii"))
        context.call(rule, "cuFuncGetAttribute", most, FunctionAttribute.MAX_THREADS_PER_BLOCK, handle)
        if prod(launch.threads) > most.value:
            limit = f"a block must have at most {most.value} threads on {context.name} with the registers of each"
            raise CudaDeviceError(f"{name}: {limit}, got {prod(launch.threads)}")
        if launch.shared_bytes > _STATIC_SHARED_BYTES:
            rule = f"{name}: {context.name} must give a block {launch.shared_bytes} bytes of shared memory"
            attribute = FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            context.call(rule, "cuFuncSetAttribute", handle, attribute, launch.shared_bytes)
        return CudaKernel(self, handle.value, name, launch.threads, launch.shared_bytes)


def _first_error(log: bytes) -> str:
    """The first error in the log of the driver's compiler, as the end of a sentence."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    candidate = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    return f": {candidate}" if candidate else ""
