"""Results of a run: outputs, counters, times of instructions, trace. Needs NumPy only."""

from vdla.simulator.stats.machine_state import MachineState
from vdla.simulator.stats.result import Result
from vdla.simulator.stats.run_stats import RunStats, macs_of
from vdla.simulator.stats.times import Times
from vdla.simulator.stats.trace import RunTrace

__all__ = ["MachineState", "Result", "RunStats", "RunTrace", "Times", "macs_of"]
