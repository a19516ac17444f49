# SPDX-License-Identifier: Apache-2.0
"""The device protocol: memory to allocate, and programs to run on it.

Addresses are byte addresses in the device's memory. A device verifies every program before it runs
it.
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
    """A request that a device refuses, or a failure of the device."""


@runtime_checkable
class Device(Protocol):
    """Something that runs programs; use it as a context manager or call `close`."""

    @property
    def name(self) -> str:
        """The name by which `open_device` opens it."""

    @property
    def config(self) -> Config:
        """The machine's configuration; a program compiled for another machine is refused."""

    def allocate(self, nbytes: int) -> int:
        """The address of zeroed memory, a multiple of ALIGNMENT; DeviceError when it is full."""

    def free(self, address: int) -> None:
        """Free a block that `allocate` returned."""

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into allocated memory."""

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy bytes out of allocated memory."""

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program to its end.

        `addresses` has that of every tensor and of the stream (STREAM).
        """

    def close(self) -> None:
        """Release everything; the device cannot be used afterwards."""

    def __enter__(self) -> Device: ...

    def __exit__(self, *error: object) -> None: ...


@runtime_checkable
class Powered(Protocol):
    """A device whose power rails can be measured, also while it runs."""

    def power(self) -> Mapping[str, float]:
        """The watts of each rail; DeviceError where there is no sensor."""


@runtime_checkable
class Stoppable(Protocol):
    """A device whose runs can be ended from another thread."""

    def stop(self) -> None:
        """End the run in progress with DeviceError; the device can run again afterwards."""
