"""Devices behind one protocol: allocate, write, run, read. The names below need NumPy only."""

from vdla.runtime.devices.device import ALIGNMENT, Device, DeviceError
from vdla.runtime.devices.memory_device import DEFAULT_BYTES, MemoryDevice

__all__ = ["ALIGNMENT", "DEFAULT_BYTES", "Device", "DeviceError", "MemoryDevice"]
