"""The error of this folder."""

from __future__ import annotations

from vdla.runtime.grid import GridDeviceError


class OpenClDeviceError(GridDeviceError):
    """No OpenCL device, or a kernel that the device cannot build or run."""
