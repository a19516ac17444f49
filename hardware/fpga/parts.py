"""The FPGAs that the boards carry: what each has of everything that the machine is made of.

Numbers of the data sheets (DS190, DS891). A BRAM36 is a block of 36 Kibit, a `lut_memory` a LUT that can be a memory.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PARTS", "Part", "part_of_preset"]


@dataclass(frozen=True, slots=True)
class Part:
    """One FPGA; `family` is what Yosys calls its architecture."""

    name: str
    family: str
    lut: int
    lut_memory: int
    ff: int
    dsp: int
    bram36: int
    uram: int = 0


PARTS = {
    part.name: part
    for part in (
        Part("xc7z010", "xc7", 17_600, 6_000, 35_200, 80, 60),
        Part("xc7z020", "xc7", 53_200, 17_400, 106_400, 220, 140),
        Part("xc7z045", "xc7", 218_600, 70_400, 437_200, 900, 545),
        Part("zu3eg", "xcup", 70_560, 28_800, 141_120, 360, 216),
        Part("zu5ev", "xcup", 117_120, 57_600, 234_240, 1_248, 144, 64),
        Part("zu7ev", "xcup", 230_400, 101_760, 460_800, 1_728, 312, 96),
    )
}

_ON_BOARD = {"ultra96": "zu3eg", "zcu104": "zu7ev", "kv260": "zu5ev"}
DEFAULT_PART = "xc7z020"


def part_of_preset(name: str) -> Part:
    """The part on the board that a configuration is named after; the one of PYNQ-Z1 where it is named after none."""
    return PARTS[_ON_BOARD.get(name, DEFAULT_PART)]
