# SPDX-License-Identifier: Apache-2.0
"""The FPGAs of the boards and their resources, from the data sheets DS190 and DS891.

A BRAM36 is a block memory of 36 Kibit, a `lut_memory` a LUT that can serve as memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.support.errors import Error

__all__ = ["PARTS", "FpgaPart", "PartError", "part_of_preset"]


class PartError(Error, ValueError):
    """An unknown part."""


@dataclass(frozen=True, slots=True)
class FpgaPart:
    """An FPGA; `family` is the name of its architecture in Yosys. Its cells and nets are `speed`
    times as fast as those of the family's slowest speed grade.
    """

    name: str
    family: str
    lut: int
    lut_memory: int
    ff: int
    dsp: int
    bram36: float
    uram: int = 0
    speed: float = 1.0


PARTS = {
    part.name: part
    for part in (
        FpgaPart(name="xc7z010", family="xc7", lut=17_600, lut_memory=6_000, ff=35_200, dsp=80, bram36=60),
        FpgaPart(name="xc7z020", family="xc7", lut=53_200, lut_memory=17_400, ff=106_400, dsp=220, bram36=140),
        FpgaPart(name="xc7z045", family="xc7", lut=218_600, lut_memory=70_400, ff=437_200, dsp=900, bram36=545),
        FpgaPart(name="zu3eg", family="xcup", lut=70_560, lut_memory=28_800, ff=141_120, dsp=360, bram36=216),
        FpgaPart(
            name="zu5ev", family="xcup", lut=117_120, lut_memory=57_600, ff=234_240, dsp=1_248, bram36=144, uram=64
        ),
        FpgaPart(
            name="zu7ev", family="xcup", lut=230_400, lut_memory=101_760, ff=460_800, dsp=1_728, bram36=312, uram=96
        ),
    )
}

FAMILIES = ("xc7", "xcup")
"""Architectures that have models of area and delay."""

_ON_BOARD = {"ultra96": "zu3eg", "zcu104": "zu7ev", "kv260": "zu5ev", "kv260_lm": "zu5ev"}
DEFAULT_PART = "xc7z020"


def part_of_preset(name: str) -> FpgaPart:
    """The part of the board that a configuration is named after, by default that of PYNQ-Z1."""
    return PARTS[_ON_BOARD.get(name, DEFAULT_PART)]
