# SPDX-License-Identifier: Apache-2.0
"""The area of a machine without synthesis, for sweeps of hundreds: formulas fitted to synthesis.

The coefficients are fitted to presets that Yosys has synthesised, unit by unit, and its tests hold
totals against them. Operands narrower than 8 bits count as 8, and extensions as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vdla.hardware.config import Config
from vdla.hardware.fpga.area import Usage
from vdla.hardware.fpga.parts import FpgaPart

LUT_ERROR = 0.1
"""By how much LUTs may be off, as a share: more than for any machine that was tried."""

_FEW_WORDS = 64  # a memory of at most this many words is made of LUTs
_BRAM_KIB = 4  # of a block RAM of 36 Kibit, without its parity bits
_BRAM_WIDTH = 32  # of half a block RAM, of the 36 what lanes of a power of two use
_URAM_WIDTH, _URAM_WORDS = 72, 4096


@dataclass(frozen=True, slots=True)
class AreaCoefficients:
    """LUTs of a family: of the units whose size hardly changes, and for each thing that units
    consist of.
    """

    control: float
    memory_port: float  # each beyond the first
    accumulator: float
    accumulator_lane: float
    mac: float
    fast_mac: float  # of an array at twice the clock
    requantise_lane: float
    scale_bit: float  # of the width of the scale buffer, if it is made of LUTs
    weight_bit: float  # of an entry of weights
    out_lane: float


COEFFICIENTS = {
    "xc7": AreaCoefficients(
        control=9_520, memory_port=1_060, accumulator=450, accumulator_lane=727, mac=6.6, fast_mac=3.15,
        requantise_lane=268, scale_bit=1.4, weight_bit=0.42, out_lane=41,
    ),
    "xcup": AreaCoefficients(
        control=9_300, memory_port=1_060, accumulator=580, accumulator_lane=733, mac=21.1, fast_mac=21.1,
        requantise_lane=309, scale_bit=1.2, weight_bit=0.42, out_lane=41,
    ),
}  # fmt: skip
"""By the family of a part."""


def estimated_usage(config: Config, part: FpgaPart) -> Usage:
    """LUTs, DSP slices, block RAMs and UltraRAMs of a machine; other resources are 0."""
    lanes = config.batch * config.block_out
    return Usage(
        lut=round(_luts(config, COEFFICIENTS[part.family], lanes, bool(part.uram))),
        dsp=ceil(config.macs_per_cycle / 2 / config.array_rate) + 5 * lanes + 4,
        bram36=_block_rams(config, bool(part.uram)),
        uram=_ultra_rams(config, lanes) if part.uram else 0,
    )


def _luts(config: Config, of: AreaCoefficients, lanes: int, ultra: bool) -> float:
    scale_width = config.scl_entry_bytes * 8
    in_luts = scale_width * of.scale_bit * max(1, config.scl_depth / _FEW_WORDS) ** 1.5
    return (
        of.control
        + of.memory_port * (config.axi_ports - 1)
        + of.accumulator
        + of.accumulator_lane * lanes
        + (of.mac if config.array_rate == 1 else of.fast_mac) * config.macs_per_cycle
        + of.requantise_lane * lanes
        + (in_luts if ultra or config.scl_depth <= _FEW_WORDS else 0)
        + of.weight_bit * config.wgt_entry_bytes * 8
        + of.out_lane * lanes
    )


def _block_rams(config: Config, ultra: bool) -> float:
    """Block RAMs of 36 Kibit; where there is UltraRAM, of weights and micro-ops alone."""
    result = _block_ram(config.wgt_kib, config.wgt_entry_bytes, config.wgt_depth)
    if not ultra:
        result += _block_ram(config.inp_kib, config.inp_entry_bytes, config.inp_depth)
        result += _block_ram(config.acc_kib, config.acc_entry_bytes, config.acc_depth)
        result += _block_ram(config.out_kib, config.acc_entry_bytes, config.out_slots)
        result += _block_ram(config.scl_kib, config.scl_entry_bytes, config.scl_depth)
    return result + max(0.5, 5 * config.uop_depth / 4096)


def _block_ram(kib: int, entry_bytes: int, depth: int) -> float:
    """By the bits of a memory, or by its width where it is wide and has few words."""
    return 0 if depth <= _FEW_WORDS else max(kib / _BRAM_KIB, ceil(8 * entry_bytes / _BRAM_WIDTH) / 2)


def _ultra_rams(config: Config, lanes: int) -> int:
    def deep(depth: int) -> int:
        return ceil(depth / _URAM_WORDS)

    inputs = ceil(config.inp_entry_bytes * 8 / _URAM_WIDTH) * deep(config.inp_depth)
    return lanes * deep(config.acc_depth) + ceil(lanes / 2) * deep(config.out_depth) + inputs
