"""The error of this folder."""

from __future__ import annotations

from vdla.support.errors import Error


class GridDeviceError(Error, RuntimeError):
    """No device, or a kernel that the device cannot build or run."""
