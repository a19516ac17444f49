"""The error of this folder."""

from __future__ import annotations

from vdla.runtime.grid import GridDeviceError


class CudaDeviceError(GridDeviceError):
    """No CUDA device, or a kernel that the device cannot load or run."""
