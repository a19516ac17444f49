"""Devices as `vdla.devices`: the protocol, the base class, and the parts of a device of your own.

`execute` and `time_program` are the simulator's and load at their first use; the rest needs NumPy
only, as on a board.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vdla.hardware.program import STREAM, from_bytes, initial_contents, output_arrays, to_bytes
from vdla.runtime.devices import ALIGNMENT, DEFAULT_BYTES, Device, DeviceError, MemoryDevice

if TYPE_CHECKING:
    from vdla.simulator.function import execute as execute
    from vdla.simulator.timing import time_program as time_program

__all__ = [
    "ALIGNMENT",
    "DEFAULT_BYTES",
    "STREAM",
    "Device",
    "DeviceError",
    "MemoryDevice",
    "execute",
    "from_bytes",
    "initial_contents",
    "output_arrays",
    "time_program",
    "to_bytes",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  a public function
    if name == "execute":
        from vdla.simulator.function import execute

        return execute
    if name == "time_program":
        from vdla.simulator.timing import time_program

        return time_program
    raise AttributeError(f"module 'vdla.devices' has no attribute {name!r}; it has {', '.join(__all__)}")
