"""The simulator as a device: exact results and cycles."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.hardware.isa import columns
from vdla.hardware.program import Program
from vdla.runtime.devices.memory_device import MemoryDevice
from vdla.simulator.function import execute
from vdla.simulator.stats import RunStats
from vdla.simulator.timing import MAX_CYCLES, time_program


class SimDevice(MemoryDevice):
    """A simulated machine."""

    name = "sim"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = time_program(program, self.config, dict(addresses), self.timeout_cycles or MAX_CYCLES)
        execute(self.config, columns(self.config, program.link(addresses)), self.memory)
        return stats
