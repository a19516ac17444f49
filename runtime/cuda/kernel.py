"""A function on a CUDA device."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.codegen.ptx import emit_ptx
from vdla.runtime.cuda.devices import open_cuda
from vdla.runtime.grid import DeviceKernel


def build_cuda(fn: ir.Function, device: str = "", *, contract: bool = True) -> DeviceKernel:
    """Compile a function, scheduled by `bind` or not, for a device, named as in `open_cuda`.

    `contract` allows a product and a sum to be fused.

    Raises:
        CudaDeviceError: no such device, or its driver refuses the text.
        SignatureError, PassError, PtxError: as `emit_ptx`.
    """
    opened = open_cuda(device)
    return DeviceKernel(emit_ptx(fn, opened.limits, opened.arch, contract=contract), opened)
