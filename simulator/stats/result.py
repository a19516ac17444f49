# SPDX-License-Identifier: Apache-2.0
"""The result of a run, the same from every device."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.hardware.program import Program
from vdla.simulator.stats.run_stats import RunStats
from vdla.simulator.stats.trace import RunTrace
from vdla.simulator.support.errors import SimulationError
from vdla.support.arrays import Array
from vdla.support.html_repr import shown_by


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """`outputs`: packed arrays by tensor name, empty after a simulation of timing alone."""

    program: Program
    outputs: dict[str, Array]
    _statistics: RunStats | None  # None after a simulation of function alone

    @property
    def statistics(self) -> RunStats:
        """Cycles, counters, bytes moved; SimulationError for function alone."""
        if self._statistics is None:
            raise SimulationError(f"result of {self.program.name}: statistics need mode both or timing, got function")
        return self._statistics

    @property
    def timed(self) -> bool:
        """Whether there are statistics."""
        return self._statistics is not None

    @property
    def trace(self) -> RunTrace:
        """The times of the instructions; SimulationError where the device records none."""
        return RunTrace(self.program, self.statistics)

    _repr_html_ = shown_by("runs", "result_html")

    def __repr__(self) -> str:
        outputs = ", ".join(self.outputs) or "none"
        cycles = "not timed" if self._statistics is None else f"{self._statistics.total_cycles:,} cycles"
        return f"<Result of {self.program.name}: outputs {outputs}; {cycles}>"
