# SPDX-License-Identifier: Apache-2.0
"""FPGA resources of a configuration, by unit and in total: LUTs, flip-flops, DSP slices, block
memories.

Counted after technology mapping by Yosys, before placement: every LUT counts as one, and so does an
inverter, although vendor tools merge most inverters into LUTs. Units keep their boundaries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from vdla.hardware.config import Config
from vdla.hardware.fpga.logic_path import LogicPath, PathReport
from vdla.hardware.fpga.parts import FpgaPart
from vdla.hardware.fpga.synthesis import Synthesis, cached_synthesis, synthesise
from vdla.hardware.fpga.yosys import YosysError
from vdla.support.progress import Progress

CLOCK, FAST_CLOCK = "clk_i", "clk2x_i"
NO_PATH = LogicPath(0.0, 0, "", "", ())

TIMING_NOTE = (
    "an estimate from the netlist alone, with cell delays of the slowest speed grade and nets by their loads; "
    "without placement, routing and clock trees"
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources; `lut` includes `lut_memory`, the LUTs used as memories or shift registers."""

    lut: int = 0
    lut_memory: int = 0
    ff: int = 0
    dsp: int = 0
    bram36: float = 0
    uram: int = 0
    carry4: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Usage)))

    def times(self, count: int) -> Usage:
        """This usage `count` times."""
        return Usage(*(getattr(self, field.name) * count for field in fields(Usage)))


def _memory(luts: int) -> Usage:
    return Usage(lut=luts, lut_memory=luts)


CELLS: tuple[tuple[str, Usage], ...] = (
    (r"LUT[1-6]|INV", Usage(lut=1)),
    (r"RAM(32|64)M|RAM128X1D|RAM256X1S", _memory(4)),
    (r"RAM32M16|RAM64M8|RAM256X1D|RAM512X1S|RAM32X16DR8|RAM64X8SW", _memory(8)),
    (r"RAM(32|64)X1D|RAM128X1S", _memory(2)),
    (r"RAM(32|64)X1S|SRL16E?|SRLC(16|32)E?", _memory(1)),
    (r"FD[RSCP]E(_1)?|LD[CP]E", Usage(ff=1)),
    (r"DSP48E[12]", Usage(dsp=1)),
    (r"RAMB18E[12]", Usage(bram36=0.5)),
    (r"RAMB36E[12]", Usage(bram36=1)),
    (r"URAM288(_BASE)?", Usage(uram=1)),
    (r"CARRY4", Usage(carry4=1)),
    (r"CARRY8", Usage(carry4=2)),
    (r"MUXF[789]|GND|VCC|BUFG|\$scopeinfo", Usage()),
)
"""The usage of a cell by a pattern of its type."""

LIMITED = ("lut", "lut_memory", "ff", "dsp", "bram36", "uram")
"""The resources that a part limits."""


@dataclass(frozen=True, slots=True)
class UnitUsage:
    """The usage of a unit without the units below it."""

    path: str
    module: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Area:
    """The usage of a configuration on a part."""

    config: Config
    part: FpgaPart
    units: tuple[UnitUsage, ...]
    paths: PathReport
    yosys: str

    @property
    def total(self) -> Usage:
        """The usage of the whole design."""
        return sum((unit.usage for unit in self.units), Usage())

    @property
    def fits(self) -> bool:
        """Whether the part has enough of every resource."""
        return all(used <= available for used, available in self.shares().values())

    @property
    def longest(self) -> LogicPath:
        """The longest path between registers of the machine's clock."""
        return self.paths.longest(CLOCK) or NO_PATH

    @property
    def fast_longest(self) -> LogicPath | None:
        """The longest path with an end in the multipliers' clock, if they have one."""
        return self.paths.fastest_budget(FAST_CLOCK)

    @property
    def lut_per_mac(self) -> float:
        """LUTs per multiply-accumulate of a cycle."""
        return self.total.lut / self.config.macs_per_cycle

    def shares(self) -> dict[str, tuple[float, int]]:
        """Used and available amounts of each limited resource."""
        total = self.total
        return {name: (getattr(total, name), getattr(self.part, name)) for name in LIMITED}

    def to_dict(self) -> dict[str, Any]:
        """The area as JSON-compatible values."""
        return {
            "config": self.config.name,
            "config_fingerprint": self.config.fingerprint,
            "part": self.part.name,
            "yosys": self.yosys,
            "fits": self.fits,
            "lut_per_mac": round(self.lut_per_mac, 2),
            "total": asdict(self.total),
            "capacity": {name: available for name, (_, available) in self.shares().items()},
            "percent": {
                name: round(100 * used / available, 1) for name, (used, available) in self.shares().items() if available
            },
            "units": [{"path": unit.path, "module": unit.module, **asdict(unit.usage)} for unit in self.units],
            "longest_path": {**asdict(self.longest), "note": TIMING_NOTE},
            "paths": asdict(self.paths),
        }


def area(config: Config, part: FpgaPart, progress: Progress) -> Area:
    """The area of a configuration on a part; YosysError if Yosys is missing or fails."""
    return _area(config, part, synthesise(config, part, progress))


def cached_area(config: Config, part: FpgaPart) -> Area | None:
    """The area of a configuration if it is known from an earlier run; YosysError without Yosys."""
    result = cached_synthesis(config, part)
    return None if result is None else _area(config, part, result)


def _area(config: Config, part: FpgaPart, result: Synthesis) -> Area:
    units = tuple(UnitUsage(unit.path, unit.module, usage_of(unit.cells)) for unit in result.units)
    return Area(config, part, units, result.paths, result.yosys)


def usage_of(cells: Mapping[str, int]) -> Usage:
    """The usage of cells, given the number of each type."""
    return sum((_of_type(kind).times(count) for kind, count in cells.items()), Usage())


def _of_type(kind: str) -> Usage:
    for pattern, usage in CELLS:
        if re.fullmatch(pattern, kind):
            return usage
    raise YosysError(f"area: cell type must be known, got {kind}")
