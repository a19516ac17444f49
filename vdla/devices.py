"""Devices as `vdla.devices`: the protocol, the base class, servers, comparison of devices, and the
parts of a device of your own.

What needs more than NumPy, as a board has it, loads at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vdla.hardware.dram_model import DramModel
from vdla.hardware.program import STREAM, from_bytes, initial_contents, output_arrays, to_bytes
from vdla.runtime.devices import ALIGNMENT, DEFAULT_BYTES, Device, DeviceError, MemoryDevice

if TYPE_CHECKING:
    from vdla.runtime.compare import compare, compare_network
    from vdla.runtime.remote import Credentials, Limits, RemoteServer
    from vdla.simulator.function.execute import Engine, execute, token_order
    from vdla.simulator.timing import time_program

_HOMES = {
    "Credentials": "vdla.runtime.remote",
    "Engine": "vdla.simulator.function",
    "Limits": "vdla.runtime.remote",
    "RemoteServer": "vdla.runtime.remote",
    "compare": "vdla.runtime.compare",
    "compare_network": "vdla.runtime.compare",
    "execute": "vdla.simulator.function",
    "time_program": "vdla.simulator.timing",
    "token_order": "vdla.simulator.function",
}

__all__ = [
    "ALIGNMENT",
    "DEFAULT_BYTES",
    "STREAM",
    "Credentials",
    "Device",
    "DeviceError",
    "DramModel",
    "Engine",
    "Limits",
    "MemoryDevice",
    "RemoteServer",
    "compare",
    "compare_network",
    "execute",
    "from_bytes",
    "initial_contents",
    "output_arrays",
    "time_program",
    "to_bytes",
    "token_order",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  a public object
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vdla.devices' has no attribute {name!r}; it has {', '.join(__all__)}")
