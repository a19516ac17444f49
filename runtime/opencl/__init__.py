"""Functions on OpenCL devices: devices, their memory and queues, programs, kernels."""

from __future__ import annotations

from vdla.runtime.opencl.devices import OpenClDevice, open_opencl, opencl_devices
from vdla.runtime.opencl.errors import OpenClDeviceError
from vdla.runtime.opencl.kernel import build_opencl

__all__ = ["OpenClDevice", "OpenClDeviceError", "build_opencl", "open_opencl", "opencl_devices"]
