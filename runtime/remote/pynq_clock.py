# SPDX-License-Identifier: Apache-2.0
"""The frequency of the first clock to the fabric, from the processing system's registers.

Registers, fields and sources: UG585 (Zynq-7000) and UG1087 (Zynq UltraScale+); the frequencies of
the crystals are those that PYNQ reckons with, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

ReadWord = Callable[[int], int]
"""The word at a physical address."""
_DIVISOR = 0x3F


@dataclass(frozen=True, slots=True)
class ClockTree:
    """Where the clock's register and those of its PLLs are, by the value of its source."""

    control: int
    source_shift: int
    source_mask: int
    first_shift: int
    second_shift: int
    plls: Mapping[int, int]
    feedback_shift: int
    halved_bit: int | None
    crystal_mhz: float

    def read_mhz(self, read_word: ReadWord) -> float | None:
        """The frequency in MHz, None where the registers have none."""
        control = read_word(self.control)
        pll = self.plls.get(control >> self.source_shift & self.source_mask)
        divisor = (control >> self.first_shift & _DIVISOR) * (control >> self.second_shift & _DIVISOR)
        if pll is None or not divisor:
            return None
        word = read_word(pll)
        halves = 1 if self.halved_bit is None else 1 + (word >> self.halved_bit & 1)
        return round(self.crystal_mhz * (word >> self.feedback_shift & 0x7F) / halves / divisor, 6)


_SLCR, _CRL_APB, _CRF_APB = 0xF8000000, 0xFF5E0000, 0xFD1A0000
_ZYNQ_7000 = ClockTree(
    control=_SLCR + 0x170,
    source_shift=4,
    source_mask=3,
    first_shift=8,
    second_shift=20,
    plls={0: _SLCR + 0x108, 1: _SLCR + 0x108, 2: _SLCR + 0x100, 3: _SLCR + 0x104},
    feedback_shift=12,
    halved_bit=None,
    crystal_mhz=50.0,
)
_ULTRASCALE = ClockTree(
    control=_CRL_APB + 0xC0,
    source_shift=0,
    source_mask=7,
    first_shift=8,
    second_shift=16,
    plls={0: _CRL_APB + 0x20, 2: _CRL_APB + 0x30, 3: _CRF_APB + 0x2C},
    feedback_shift=8,
    halved_bit=16,
    crystal_mhz=33.333,
)


def clock_tree(compatible: bytes) -> ClockTree | None:
    """That of a board by its device tree; None for a processor that is not known, which may lack
    these addresses.
    """
    kinds = compatible.split(b"\0")
    if b"xlnx,zynq-7000" in kinds:
        return _ZYNQ_7000
    return _ULTRASCALE if b"xlnx,zynqmp" in kinds else None
