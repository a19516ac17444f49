# SPDX-License-Identifier: Apache-2.0
"""Gates of a configuration by unit, for a comparison with circuits that are no FPGAs.

Yosys maps the logic to gates, whose area is that of their transistors in static CMOS, or to the
cells of a Liberty file, which states their areas. Memories of at most `FEW_WORDS` words become
flip-flops; the bits of larger ones are counted, as a memory compiler would place them.

No clock tree, scan chain, placement or wire is included, and no power or timing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vdla.hardware.config import Config
from vdla.hardware.fpga.synthesis import cache_path, cached_run, each_stage, keep_units, sources, units_of, write_files
from vdla.hardware.fpga.yosys import YosysError, run_yosys, yosys_version
from vdla.hardware.generate.rtl_files import TOP
from vdla.support.progress import Progress

FEW_WORDS = 16
"""The depth up to which a memory, such as a queue, consists of flip-flops."""

TRANSISTORS = {
    "NOT": 2, "NAND": 4, "NOR": 4, "AND": 6, "OR": 6, "AOI3": 6, "OAI3": 6, "XOR": 12, "XNOR": 12, "MUX": 12,
    "DFF_P": 16,
}  # fmt: skip
"""Transistors of gates in static CMOS, as the command `stat -tech cmos` of Yosys has them."""

GATE_EQUIVALENT = TRANSISTORS["NAND"]
"""The transistors of the gate that is the unit of area."""

NOTE = "logic alone: without clock tree, scan chains, placement and wires; memories are counted in bits"

_LIBRARY = "cells.lib"
_MARK = "vdla-gates:"
_STAGES = ("read", "coarse", "memories", "gates", "cells")
_FLIP_FLOP = "$_DFF_P_"
_NO_CELLS = ("$mem_v2", "$scopeinfo", "$print", "$check")
_FLIP_FLOPS, _BITS = "flip-flops", "bits"  # beside the types of cells


@dataclass(frozen=True, slots=True)
class UnitGates:
    """Cells and flip-flops of a unit, its area (gate equivalents, or the library's unit), and the
    bits of its memories, without the units below it.
    """

    path: str
    module: str
    cells: int
    flip_flops: int
    area: float
    memory_bits: int


@dataclass(frozen=True, slots=True)
class GateArea:
    """The gates of a configuration; `library` is the name of a Liberty file, empty without one."""

    config: str
    library: str
    yosys: str
    units: tuple[UnitGates, ...]

    @property
    def total(self) -> UnitGates:
        """The sums over all units."""
        sums = (sum(getattr(unit, name) for unit in self.units) for name in COUNTS)
        return UnitGates(TOP, TOP, *sums)

    @property
    def unit_of_area(self) -> str:
        """What areas are given in."""
        return f"the unit of {self.library}" if self.library else "gate equivalents (NAND of two inputs)"

    def to_dict(self) -> dict[str, Any]:
        """The area as JSON-compatible values."""
        return {**asdict(self), "total": asdict(self.total), "unit_of_area": self.unit_of_area, "note": NOTE}


COUNTS = ("cells", "flip_flops", "area", "memory_bits")
"""The fields of a unit that are summed."""


def gate_area(config: Config, library: Path | None, progress: Progress) -> GateArea:
    """The gates of a configuration, in cells of a Liberty file if there is one.

    From the cache, or in about `usual_seconds`.

    Raises:
        YosysError: Yosys is missing, or refuses the library.
    """
    if library is not None and not library.is_file():
        raise YosysError(f"area: library must be a Liberty file, got {library} (no such file)")
    areas = _gate_areas() if library is None else liberty_areas(library)
    version = yosys_version()
    files = sources(config) | ({} if library is None else {_LIBRARY: library})
    text = script(config, library is not None)

    def run(folder: Path) -> GateArea:
        write_files(folder, files)
        start = f"start Yosys, about {usual_seconds(config)} s in total; its first start takes about 2 minutes more"
        progress(start, 0, len(_STAGES) + 1)
        run_yosys(folder, text, each_stage(_MARK, len(_STAGES) + 1, progress))
        return GateArea(config.name, "" if library is None else library.name, version, _units(folder, areas))

    def from_json(document: Mapping[str, Any]) -> GateArea:
        units = tuple(UnitGates(**unit) for unit in document["units"])
        return GateArea(config.name, "" if library is None else library.name, document["yosys"], units)

    return cached_run(cache_path((text, version), files), from_json, run)


def usual_seconds(config: Config) -> int:
    """Usual time of a run on a PC, without the one-off compilation of Yosys."""
    return 10 * round(5 + 0.05 * config.macs_per_cycle)


def script(config: Config, library: bool) -> str:
    """The Yosys script, for a folder with the sources."""
    mapping = [f"abc -g {','.join(name for name in TRANSISTORS if name not in ('NOT', 'DFF_P'))}"]
    if library:
        mapping = [f"dfflibmap -liberty {_LIBRARY}", f"abc -liberty {_LIBRARY}"]
    lines = [
        f"log {_MARK} {_STAGES[0]}",
        f"read_slang --threads 1 --keep-hierarchy --ignore-assertions --top {TOP} {' '.join(sources(config))}",
        f"hierarchy -check -top {TOP}",
        *keep_units(config),
        f"log {_MARK} {_STAGES[1]}",
        f"synth -flatten -noshare -top {TOP} -run coarse:fine",
        f"log {_MARK} {_STAGES[2]}",
        f"memory_map t:$mem_v2 r:SIZE<={FEW_WORDS} %i",
        "select t:$mem_v2",
        "write_json -selected memories.json",
        "select -clear",
        f"log {_MARK} {_STAGES[3]}",
        "opt -fast -full",
        "techmap",
        "setattr -unset init w:*",  # an ASIC has no initial values
        "opt -fast",
        f"dfflegalize -cell {_FLIP_FLOP} x",
        "opt_clean",
        "tee -q -o flip_flops.json stat -json",
        f"log {_MARK} {_STAGES[4]}",
        *mapping,
        "opt_clean",
        "tee -q -o stat.json stat -json",
    ]
    return "\n".join(lines) + "\n"


def _units(folder: Path, areas: Mapping[str, float]) -> tuple[UnitGates, ...]:
    """The units of the three files that the script writes."""
    statistics, flip_flops, memories = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["modules"]
        for name in ("stat", "flip_flops", "memories")
    )
    for name, module in statistics.items():
        module["num_cells_by_type"] |= {
            _FLIP_FLOPS: flip_flops[name]["num_cells_by_type"].get(_FLIP_FLOP, 0),
            _BITS: _bits(memories.get(name.removeprefix("\\"), {})),
        }
    return tuple(_unit(unit.path, unit.module, unit.cells, areas) for unit in units_of({"modules": statistics}))


def _unit(path: str, module: str, counts: Mapping[str, int], areas: Mapping[str, float]) -> UnitGates:
    cells = {kind: count for kind, count in counts.items() if kind not in (*_NO_CELLS, _FLIP_FLOPS, _BITS)}
    for kind in cells:
        if kind not in areas:
            raise YosysError(f"area: type of a cell must have an area, got {kind}")
    area = sum(count * areas[kind] for kind, count in cells.items())
    return UnitGates(path, module, sum(cells.values()), counts[_FLIP_FLOPS], area, counts[_BITS])


def _bits(module: Mapping[str, Any]) -> int:
    parameters = (cell["parameters"] for cell in module.get("cells", {}).values())
    return sum(int(values["SIZE"], 2) * int(values["WIDTH"], 2) for values in parameters)


# --- areas of cells ------------------------------------------------------------------------------


def _gate_areas() -> dict[str, float]:
    return {f"$_{name}_": count / GATE_EQUIVALENT for name, count in TRANSISTORS.items()}


_CELL = re.compile(r"""\bcell\s*\(\s*"?([^")\s]+)"?\s*\)\s*\{""")
_CELL_AREA = re.compile(r"""\barea\s*:\s*"?([-+.\deE]+)""")


def liberty_areas(library: Path) -> dict[str, float]:
    """The area of each cell of a Liberty file, in its unit; YosysError if there are none."""
    text = library.read_text(encoding="utf-8", errors="replace")
    starts = [(match[1], match.end()) for match in _CELL.finditer(text)]
    ends = [*(start for _, start in starts), len(text)][1:]
    matches = {name: _CELL_AREA.search(text, start, end) for (name, start), end in zip(starts, ends, strict=True)}
    areas = {name: float(area[1]) for name, area in matches.items() if area is not None}
    if not areas:
        raise YosysError(f"area: library must have cells with areas, got {library.name} with none")
    return areas
