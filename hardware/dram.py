# SPDX-License-Identifier: Apache-2.0
"""The model of the DRAM; docs/timing-contract.md says how its figures combine."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.hardware.checks import ConfigError, require_integer
from vdla.support.integers import fields_to_python
from vdla.support.keywords import checked_keywords


@checked_keywords(ConfigError)
@dataclass(frozen=True, slots=True)
class Dram:
    """Latencies and gaps in cycles of the accelerator's clock; outstanding requests in bursts."""

    read_latency: int = 80
    write_latency: int = 40
    outstanding_reads: int = 8
    outstanding_writes: int = 8
    beat_cycles: int = 1
    burst_gap: int = 0

    def __post_init__(self) -> None:
        fields_to_python(self)
        for name in ("read_latency", "write_latency"):
            require_integer("config dram", name, getattr(self, name), 1, 65536)
        for name in ("outstanding_reads", "outstanding_writes"):
            require_integer("config dram", name, getattr(self, name), 1, 256)
        require_integer("config dram", "beat_cycles", self.beat_cycles, 1, 256)
        require_integer("config dram", "burst_gap", self.burst_gap, 0, 256)
