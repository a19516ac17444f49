"""The self-test of a device: what works, and a DRAM model measured on it.

Needs the simulator and the compiler, so it runs on a workstation and drives a device that may be
elsewhere.
"""

from vdla.runtime.selftest.checks import check_device
from vdla.runtime.selftest.measure import MemoryMeasurement, measure
from vdla.runtime.selftest.outcome import CheckOutcome, CheckState

__all__ = ["CheckOutcome", "CheckState", "MemoryMeasurement", "check_device", "measure"]
