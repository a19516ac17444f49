# SPDX-License-Identifier: Apache-2.0
"""The delays of FPGA cells and nets, one table for each family of parts at its slowest speed grade.

All in ns, worst case. Where they are from:

- Series 7, slices and block RAMs: the models of the cells that come with Yosys, from measurements
  of Artix-7 by Project X-Ray; LUTs and enables as published reports of the vendor's tool for speed
  grade -1 have them.
- Series 7, DSP slices: the same models times 1.37, by which published reports for speed grade -1
  exceed them (A to PCOUT, PCIN to P). Set-up times of their controls are estimates.
- Shortest periods of blocks: figures of the data sheets as generally quoted, not checked against
  them.
- UltraScale+: estimates in proportion to these periods; no report has been compared with them.
- Nets: estimates in both families, since a netlist knows no distances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

__all__ = ["DELAYS", "Delays"]


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of one family; `_out` is from the clock to an output, `_setup` to the clock."""

    # A net that leaves its slice: base + step * log2(loads), up to a limit. Tools replicate
    # registers that drive many loads, hence two limits; a block is a DSP or block RAM.
    net_base: float
    net_step: float
    net_limit_replicated: float
    net_limit: float
    net_to_block: float

    lut: float
    mux: float
    mux_select: float
    carry_in: float
    carry_through: float
    carry_out: float
    carry_sum: float

    register_out: float
    register_setup: float
    enable_setup: float
    reset_setup: float

    lut_ram_out: float
    shift_out: float
    lut_memory_setup: float

    block_ram_out: float
    block_ram_registered_out: float
    block_ram_setup: float
    block_ram_data_setup: float
    ultra_ram_out: float
    ultra_ram_setup: float

    # A DSP: from where a value enters or is held, to P or to a register on the way.
    dsp_setup: float
    dsp_control_setup: float
    dsp_preadd: float
    dsp_multiply: float
    dsp_multiply_add: float
    dsp_add: float
    dsp_cascade_add: float
    dsp_p_out: float
    dsp_m_out: float
    dsp_c_out: float
    dsp_a_out: float
    dsp_pcout: float

    # The shortest periods of a clock.
    dsp_period: float
    dsp_period_without_m: float
    dsp_period_without_ad: float
    block_ram_period: float
    ultra_ram_period: float

    def net(self, loads: int, replicated: bool) -> float:
        """The delay of a net with a number of loads."""
        limit = self.net_limit_replicated if replicated else self.net_limit
        return min(limit, self.net_base + self.net_step * log2(max(1, loads)))


_SERIES_7 = Delays(
    net_base=0.40,
    net_step=0.18,
    net_limit_replicated=1.4,
    net_limit=2.2,
    net_to_block=0.3,
    lut=0.124,
    mux=0.22,
    mux_select=0.30,
    carry_in=0.53,
    carry_through=0.114,
    carry_out=0.23,
    carry_sum=0.09,
    register_out=0.456,
    register_setup=0.06,
    enable_setup=0.20,
    reset_setup=0.43,
    lut_ram_out=1.31,
    shift_out=1.63,
    lut_memory_setup=0.45,
    block_ram_out=2.454,
    block_ram_registered_out=0.882,
    block_ram_setup=0.57,
    block_ram_data_setup=0.74,
    ultra_ram_out=2.5,
    ultra_ram_setup=0.5,
    dsp_setup=0.37,
    dsp_control_setup=0.5,
    dsp_preadd=1.35,
    dsp_multiply=1.94,
    dsp_multiply_add=3.85,
    dsp_add=1.82,
    dsp_cascade_add=1.52,
    dsp_p_out=0.434,
    dsp_m_out=2.29,
    dsp_c_out=2.31,
    dsp_a_out=4.04,
    dsp_pcout=0.19,
    dsp_period=2.155,
    dsp_period_without_m=3.89,
    dsp_period_without_ad=3.89,
    block_ram_period=2.577,
    ultra_ram_period=2.5,
)

_ULTRASCALE_PLUS = Delays(
    net_base=0.22,
    net_step=0.1,
    net_limit_replicated=0.8,
    net_limit=1.2,
    net_to_block=0.2,
    lut=0.1,
    mux=0.1,
    mux_select=0.15,
    carry_in=0.26,
    carry_through=0.03,
    carry_out=0.12,
    carry_sum=0.05,
    register_out=0.14,
    register_setup=0.03,
    enable_setup=0.09,
    reset_setup=0.09,
    lut_ram_out=0.6,
    shift_out=0.7,
    lut_memory_setup=0.2,
    block_ram_out=1.4,
    block_ram_registered_out=0.4,
    block_ram_setup=0.35,
    block_ram_data_setup=0.35,
    ultra_ram_out=1.4,
    ultra_ram_setup=0.35,
    dsp_setup=0.25,
    dsp_control_setup=0.3,
    dsp_preadd=0.6,
    dsp_multiply=1.4,
    dsp_multiply_add=2.3,
    dsp_add=1.1,
    dsp_cascade_add=0.9,
    dsp_p_out=0.26,
    dsp_m_out=1.15,
    dsp_c_out=1.2,
    dsp_a_out=2.4,
    dsp_pcout=0.12,
    dsp_period=1.55,
    dsp_period_without_m=2.33,
    dsp_period_without_ad=2.33,
    block_ram_period=1.55,
    ultra_ram_period=1.81,
)

DELAYS: Mapping[str, Delays] = {"xc7": _SERIES_7, "xcup": _ULTRASCALE_PLUS}
"""The delays by the name of a family in Yosys."""
