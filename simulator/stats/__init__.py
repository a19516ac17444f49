"""Statistics of a run: totals, counters and the times of every instruction. Needs NumPy only."""

from vdla.simulator.stats.run_stats import RunStats, macs_of
from vdla.simulator.stats.times import Times

__all__ = ["RunStats", "Times", "macs_of"]
