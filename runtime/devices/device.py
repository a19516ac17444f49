"""The protocol of a device: memory, and programs that run on it.

Addresses are bytes in the device's own memory. A device verifies every program before it runs. This module needs
only numpy and the standard library, so that it imports on a board.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats
from vdla.support.errors import Error

Bytes = NDArray[np.uint8]
ALIGNMENT = 4096


class DeviceError(Error, RuntimeError):
    """What a device refuses or cannot do."""


@runtime_checkable
class Device(Protocol):
    """Something that runs programs; use it as a context manager or call `close`."""

    @property
    def name(self) -> str:
        """What `open_device` knows it by."""

    @property
    def config(self) -> Config:
        """The machine; a program for another one is refused."""

    def allocate(self, nbytes: int) -> int:
        """The address of fresh memory, zero, at a multiple of ALIGNMENT."""

    def free(self, address: int) -> None:
        """Give back what `allocate` returned."""

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into allocated memory."""

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy bytes out of allocated memory."""

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program to its end; `addresses` has the place of every tensor and of the stream (STREAM)."""

    def close(self) -> None:
        """Give everything back; the device cannot be used afterwards."""

    def __enter__(self) -> Device: ...

    def __exit__(self, *error: object) -> None: ...
