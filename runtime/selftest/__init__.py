"""The self-test of a device: what works, and a DRAM model measured on it.

Needs the simulator and the compiler, so it runs on a workstation and drives a device that may be
elsewhere.
"""

from vdla.runtime.selftest.checks import check_device
from vdla.runtime.selftest.measure import Measurement, measure
from vdla.runtime.selftest.outcome import Outcome, Verdict

__all__ = ["Measurement", "Outcome", "Verdict", "check_device", "measure"]
