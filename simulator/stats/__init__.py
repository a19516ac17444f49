# SPDX-License-Identifier: Apache-2.0
"""Results of a run: outputs, counters, times of instructions, trace. Needs NumPy only."""

from vdla.simulator.stats.machine_state import MachineState
from vdla.simulator.stats.moved_bytes import moved_bytes
from vdla.simulator.stats.result import Result
from vdla.simulator.stats.run_stats import RunStats, attained_gops, gemm_macs, intensity, macs_of
from vdla.simulator.stats.times import UNKNOWN, Times
from vdla.simulator.stats.trace import RunTrace

__all__ = [
    "UNKNOWN",
    "MachineState",
    "Result",
    "RunStats",
    "RunTrace",
    "Times",
    "attained_gops",
    "gemm_macs",
    "intensity",
    "macs_of",
    "moved_bytes",
]
