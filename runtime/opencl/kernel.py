"""A function on an OpenCL device."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.runtime.grid import DeviceKernel
from vdla.runtime.opencl.devices import open_opencl


def build_opencl(fn: ir.Function, device: str = "") -> DeviceKernel:
    """Compile a function, scheduled by `bind` or not, for a device, named as in `open_opencl`.

    Raises:
        OpenClDeviceError: no such device, or its compiler refuses the source.
        SignatureError, PassError, OpenClError: as `emit_opencl`.
    """
    opened = open_opencl(device)
    return DeviceKernel(opened.compile(fn), opened)
