"""Functions on CUDA devices: devices, their memory and streams, modules, kernels."""

from __future__ import annotations

from vdla.runtime.cuda.devices import CudaDevice, cuda_devices, cuda_version, open_cuda
from vdla.runtime.cuda.errors import CudaDeviceError
from vdla.runtime.cuda.kernel import build_cuda

__all__ = ["CudaDevice", "CudaDeviceError", "build_cuda", "cuda_devices", "cuda_version", "open_cuda"]
