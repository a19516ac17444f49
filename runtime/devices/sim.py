# SPDX-License-Identifier: Apache-2.0
"""The simulator as a device: exact results and cycles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.hardware.isa import columns
from vdla.hardware.program import Program
from vdla.runtime.devices.memory_device import Contents, MemoryDevice
from vdla.simulator.function import Buffers, Engine, token_order
from vdla.simulator.stats import RunStats
from vdla.simulator.timing import MAX_CYCLES, time_program


class SimDevice(MemoryDevice):
    """A simulated machine; every run begins with buffers of zeros, unless it is told otherwise."""

    name = "sim"
    takes_contents = True
    _begin: Contents | None = None
    _buffers: Buffers | None = None

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = time_program(program, self.config, dict(addresses), self.timeout_cycles or MAX_CYCLES)
        places = {name: self._open().offset(address) for name, address in addresses.items()}
        engine = Engine(self.config, columns(self.config, program.link(places)), self.memory)
        begin, self._begin = self._begin, None
        if begin is not None:
            engine.buffers.fill(begin)
        engine.run(token_order(engine.columns))
        self._buffers = engine.buffers
        return stats

    def contents(self) -> Contents:
        """The on-chip buffers after the last run."""
        buffers = self._buffers or Buffers(self.config, np.zeros(0, np.uint8), tiled=False)
        return buffers.contents()

    def begin_with(self, contents: Contents) -> None:
        """Begin the next run with these buffers."""
        self._begin = contents
