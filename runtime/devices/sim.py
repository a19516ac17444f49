# SPDX-License-Identifier: Apache-2.0
"""The simulator as a device: exact results and cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from vdla.hardware.program import Program
from vdla.runtime.devices.memory_device import Contents, MemoryDevice
from vdla.simulator.function import Buffers, Engine, token_order
from vdla.simulator.stats import RunStats
from vdla.simulator.timing import MAX_CYCLES, time_program
from vdla.support.arrays import Ints


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What every run of a program at these addresses has in common, whatever its data."""

    addresses: Mapping[str, int]
    stats: RunStats
    columns: Ints
    order: Ints


class SimDevice(MemoryDevice):
    """A simulated machine; every run begins with buffers of zeros, unless it is told otherwise."""

    name = "sim"
    takes_contents = True
    _begin: Contents | None = None
    _buffers: Buffers | None = None

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        prepared, limit = self._known.get(program), self.timeout_cycles or MAX_CYCLES
        if prepared is None or prepared.addresses != addresses or prepared.stats.total_cycles > limit:
            prepared = self._known[program] = self._prepare(program, dict(addresses), limit)
        engine = Engine(self.config, prepared.columns, self.memory)
        begin, self._begin = self._begin, None
        if begin is not None:
            engine.buffers.fill(begin)
        engine.run(prepared.order)
        self._buffers = engine.buffers
        return prepared.stats

    @cached_property
    def _known(self) -> WeakKeyDictionary[Program, _Prepared]:
        """The last run of each program that is still alive."""
        return WeakKeyDictionary()

    def _prepare(self, program: Program, addresses: dict[str, int], limit: int) -> _Prepared:
        stats = time_program(program, self.config, addresses, limit)
        places = {name: self._open().offset(address) for name, address in addresses.items()}
        linked = program.linked_columns(places)
        return _Prepared(addresses, stats, linked, token_order(linked))

    def contents(self) -> Contents:
        """The on-chip buffers after the last run."""
        buffers = self._buffers or Buffers(self.config, np.zeros(0, np.uint8), tiled=False)
        return buffers.contents()

    def begin_with(self, contents: Contents) -> None:
        """Begin the next run with these buffers."""
        self._begin = contents
