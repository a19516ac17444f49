"""Devices with a grid of threads: arrays in their memory, streams, events, kernels."""

from __future__ import annotations

from vdla.runtime.grid.device_kernel import BoundKernel, DeviceKernel
from vdla.runtime.grid.errors import GridDeviceError
from vdla.runtime.grid.protocol import (
    DeviceArray,
    DeviceStream,
    Event,
    GridDevice,
    GridLaunch,
    GridSource,
    LoadedKernel,
)
from vdla.runtime.grid.registry import GRID_DEVICES, build_on_grid, open_grid_device

__all__ = [
    "GRID_DEVICES",
    "BoundKernel",
    "DeviceArray",
    "DeviceKernel",
    "DeviceStream",
    "Event",
    "GridDevice",
    "GridDeviceError",
    "GridLaunch",
    "GridSource",
    "LoadedKernel",
    "build_on_grid",
    "open_grid_device",
]
