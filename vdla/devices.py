# SPDX-License-Identifier: Apache-2.0
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
    from vdla.runtime.devices.driver import Driver
    from vdla.runtime.devices.residents import Residents
    from vdla.runtime.devices.switching import Switching, read_switching
    from vdla.runtime.diagnosis.comparison import compare
    from vdla.runtime.diagnosis.network_comparison import compare_network
    from vdla.runtime.remote.credentials import Credentials
    from vdla.runtime.remote.limits import Limits
    from vdla.runtime.remote.server import RemoteServer
    from vdla.simulator.function.execute import Engine, execute, token_order
    from vdla.simulator.stats import Times
    from vdla.simulator.timing import time_program
    from vdla.simulator.verify import require_verified

_HOMES = {
    "Credentials": "vdla.runtime.remote.credentials",
    "Driver": "vdla.runtime.devices.driver",
    "Engine": "vdla.simulator.function",
    "Limits": "vdla.runtime.remote.limits",
    "RemoteServer": "vdla.runtime.remote.server",
    "Residents": "vdla.runtime.devices.residents",
    "Switching": "vdla.runtime.devices.switching",
    "Times": "vdla.simulator.stats",
    "compare": "vdla.runtime.diagnosis.comparison",
    "compare_network": "vdla.runtime.diagnosis.network_comparison",
    "execute": "vdla.simulator.function",
    "read_switching": "vdla.runtime.devices.switching",
    "require_verified": "vdla.simulator.verify",
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
    "Driver",
    "Engine",
    "Limits",
    "MemoryDevice",
    "RemoteServer",
    "Residents",
    "Switching",
    "Times",
    "compare",
    "compare_network",
    "execute",
    "from_bytes",
    "initial_contents",
    "output_arrays",
    "read_switching",
    "require_verified",
    "time_program",
    "to_bytes",
    "token_order",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  a public object
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vdla.devices' has no attribute {name!r}; it has {', '.join(__all__)}")
