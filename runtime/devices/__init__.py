# SPDX-License-Identifier: Apache-2.0
"""Devices behind one protocol: allocate, write, run, read. The names below need NumPy only."""

from vdla.runtime.devices.device import ALIGNMENT, Device, DeviceError
from vdla.runtime.devices.memory_device import DEFAULT_BYTES, MemoryDevice
from vdla.runtime.devices.registry import DEVICES, open_device, require_device_name

__all__ = [
    "ALIGNMENT",
    "DEFAULT_BYTES",
    "DEVICES",
    "Device",
    "DeviceError",
    "MemoryDevice",
    "open_device",
    "require_device_name",
]
