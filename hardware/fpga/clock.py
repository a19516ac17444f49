# SPDX-License-Identifier: Apache-2.0
"""The clock that a synthesised machine is estimated to hold, from its longest path.

The estimate is one before placement, as that of the path is: it compares machines.
"""

from __future__ import annotations

from vdla.hardware.fpga.area import CLOCK, FAST_CLOCK, Area


def estimated_clock_mhz(area: Area) -> float:
    """The clock at which the longest path takes a period, and every block has its shortest one; the
    multipliers' paths, where these have a clock of their own, take a part of it.
    """
    rate, fast = area.config.array_rate, area.fast_longest
    periods = [area.longest.estimate_ns, area.paths.period_ns.get(CLOCK, 0.0)]
    if fast is not None:
        periods += [rate * fast.estimate_ns, rate * area.paths.period_ns.get(FAST_CLOCK, 0.0)]
    longest = max(periods)
    return 1000 * area.part.speed / longest if longest else area.config.clock_mhz
