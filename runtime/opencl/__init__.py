"""Functions on OpenCL devices: devices, programs, kernels called with NumPy arrays."""

from __future__ import annotations

from vdla.runtime.opencl.devices import OpenClDevice, open_opencl, opencl_devices
from vdla.runtime.opencl.errors import OpenClDeviceError
from vdla.runtime.opencl.kernel import OpenClKernel, build_opencl

__all__ = ["OpenClDevice", "OpenClDeviceError", "OpenClKernel", "build_opencl", "open_opencl", "opencl_devices"]
