"""From a scheduled function to OpenCL C, and how to launch it."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.abi import Argument, Launch, Signature
from vdla.compiler.codegen.grid_arrays import check_elements, temporaries_of
from vdla.compiler.codegen.llvm import signature_of
from vdla.compiler.codegen.opencl.errors import OpenClError
from vdla.compiler.codegen.opencl.helpers import prelude
from vdla.compiler.codegen.opencl.kernel_source import write_kernel
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits


@dataclass(frozen=True, slots=True)
class OpenClSource:
    """A function in OpenCL C: kernels that run in the order of `launches`.

    `temporaries` are the arrays in device memory that exist during a call.
    """

    signature: Signature
    text: str
    launches: tuple[Launch, ...]
    temporaries: tuple[Argument, ...]

    def __str__(self) -> str:
        return self.text.rstrip()


def emit_opencl(fn: ir.Function, limits: GridLimits) -> OpenClSource:
    """The OpenCL C of a function, scheduled by `bind` or not, for a device of these limits.

    Raises:
        SignatureError: the function cannot be called with arrays.
        PassError: the schedule asks for the impossible, or for more than the device has.
        OpenClError: an array exceeds what OpenCL C can express.
    """
    signature = signature_of(fn)
    kernels = lower_kernels(fn, limits)
    check_elements(fn, kernels, OpenClError)
    used: set[str] = set()
    parts, launches = [], []
    for kernel in kernels:
        text, launch = write_kernel(fn, kernel, used)
        parts.append(text)
        launches.append(launch)
    head = "#pragma OPENCL FP_CONTRACT OFF"
    text = "\n\n".join(part for part in (head, prelude(used), *parts) if part) + "\n"
    return OpenClSource(signature, text, tuple(launches), temporaries_of(fn, kernels))
