"""A simulator that fails as a board may: errors, crashes, slow runs, runs that do not end.

The faults follow from the seed and the number of the device, so that a device that is opened again
does not repeat those of the one before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.stats import RunStats

MEMORY_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class DeviceFaults:
    """The share of runs with each fault, and the seconds of slow and of endless ones."""

    error: float = 0.02
    crash: float = 0.004
    slow: float = 0.02
    endless: float = 0.001
    slow_s: float = 0.2
    endless_s: float = 6.0


class FaultyDevice(SimDevice):
    """A simulator with faults drawn by `random`."""

    def __init__(self, config: Config, random: Random, faults: DeviceFaults) -> None:
        super().__init__(config, MEMORY_BYTES)
        self._random, self._faults = random, faults

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program, or fail before or after."""
        faults, drawn = self._faults, self._random.random()
        if drawn < faults.error:
            raise DeviceError(f"device {self.name}: injected error")
        drawn -= faults.error
        if drawn < faults.crash:
            raise OSError("injected crash")
        drawn -= faults.crash
        if drawn < faults.slow:
            time.sleep(self._random.uniform(0, faults.slow_s))
        elif drawn < faults.slow + faults.endless:
            time.sleep(faults.endless_s)
        return super().run(program, addresses)


@dataclass(slots=True)
class FaultyDevices:
    """Opens devices, one after the other; picklable."""

    config: Config
    seed: int
    faults: DeviceFaults = field(default_factory=DeviceFaults)
    opened: int = 0

    def __call__(self) -> Device:
        """The next device."""
        self.opened += 1
        return FaultyDevice(self.config, Random(f"{self.seed} {self.opened}"), self.faults)
