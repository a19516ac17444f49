# SPDX-License-Identifier: Apache-2.0
"""`vdla area`: the FPGA resources or the gates of a machine, by unit, as synthesised by Yosys."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.console import errors, output, progress, table
from vdla.commands.device_options import part_named
from vdla.commands.files import require_folders, write_json
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.options import add_options, natural

if TYPE_CHECKING:
    from vdla.hardware.asic.gates import GateArea, UnitGates
    from vdla.hardware.config import Config
    from vdla.hardware.fpga.area import Area, Usage
    from vdla.hardware.fpga.logic_path import LogicPath
    from vdla.support.progress import Progress

EXAMPLES = """\
  vdla area                  pynq_z1 on its xc7z020, by unit; a minute, once
  vdla area --preset zcu104  on the part of that board
  vdla area --paths 10       and its ten longest paths
  vdla area --config my.json --part xc7z010 --json -
  vdla area --gates          as an ASIC has it: gate equivalents, bits of memory
  vdla area --gates sky130.lib --extension lut.py    cells of a library
"""

GATES_ALONE = "-"  # of --gates without a file

COLUMNS = {
    "lut": "LUT",
    "lut_memory": "of these memory",
    "ff": "FF",
    "dsp": "DSP",
    "bram36": "BRAM36",
    "uram": "URAM",
    "carry4": "CARRY4",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the part, the form."""
    add_machine_arguments(parser)
    parser.add_argument(
        "--part", metavar="NAME", help="the FPGA, or FILE.json with yours (default: that of the preset's board)"
    )
    parser.add_argument("--paths", type=natural, default=0, metavar="N", help="list the N longest paths")
    parser.add_argument(
        "--gates", nargs="?", const=GATES_ALONE, metavar="FILE.lib",
        help="logic gates in place of FPGA resources, or the cells of a Liberty file",
    )  # fmt: skip
    add_options(parser, {"--json": "write JSON to FILE, or to standard output in place of tables"})


def run(arguments: argparse.Namespace) -> int:
    """Synthesise and print; exit code 1 when the part is too small."""
    from vdla.hardware.fpga.area import area

    config = machine(arguments)
    require_folders("area", arguments, "json")
    if arguments.gates is not None:
        return _gates(arguments, config)
    part = part_named("area", arguments.part, config)
    with progress(f"area of {config.name}") as show:
        result = area(config, part, _with_estimate(config.name, show))
    if not write_json(arguments.json, result.to_dict()):
        _show(result)
        if arguments.paths:
            output().print(_paths(result, arguments.paths))
    return OK if result.fits else FINDING


def _gates(arguments: argparse.Namespace, config: Config) -> int:
    """Synthesises to gates and prints them."""
    from vdla.hardware.asic.gates import gate_area

    for name, value in (("--part", arguments.part), ("--paths", arguments.paths)):
        if value:
            raise CommandError(f"area: {name} must be of an FPGA, got it with --gates (leave one out)")
    library = None if arguments.gates == GATES_ALONE else Path(arguments.gates)
    with progress(f"gates of {config.name}") as show:
        result = gate_area(config, library, _with_estimate(config.name, show))
    if not write_json(arguments.json, result.to_dict()):
        _show_gates(result)
    return OK


def _show_gates(result: GateArea) -> None:
    from vdla.hardware.asic.gates import NOTE

    title = f"{result.config}, mapped by Yosys {result.yosys}"
    shown = table(title, "unit", "cells", "flip-flops", "area", "bits of memory")
    for unit in result.units:
        shown.add_row("  " * unit.path.count(".") + unit.module.removeprefix("vdla_"), *_counts(unit))
    shown.add_section()
    shown.add_row("total", *_counts(result.total), style="bold")
    output().print(shown)
    output().print(f"area in {result.unit_of_area}; {NOTE}")


def _counts(unit: UnitGates) -> list[str]:
    return [f"{count:,}" for count in (unit.cells, unit.flip_flops, round(unit.area), unit.memory_bits)]


def _with_estimate(name: str, show: Progress) -> Progress:
    """`show`, with the first step printed at once: how long the synthesis takes."""

    def step(what: str, done: int, total: int) -> None:
        if not done:
            errors().print(f"area of {name}: {what}")
        show(what, done, total)

    return step


def _show(result: Area) -> None:
    from vdla.hardware.fpga.area import TIMING_NOTE

    output().print(_table(result))
    output().print()
    output().print(f"{result.config.macs_per_cycle} MACs a cycle, {result.lut_per_mac:.1f} LUT each")
    _show_path("longest path", result.longest)
    if result.fast_longest is not None:
        _show_path("longest path at the clock of the multipliers", result.fast_longest)
    for kind, paths in (("from an input", result.paths.inputs), ("to an output", result.paths.outputs)):
        for path in paths[:1]:
            _show_path(f"longest path {kind}", path)
    output().print(f"paths: {TIMING_NOTE}")
    verdict = "fits" if result.fits else "does not fit"
    output().print(f"{result.config.name} {verdict} {result.part.name}")


def _show_path(what: str, path: LogicPath) -> None:
    output().print(f"{what}: {path.levels} levels of logic, about {path.estimate_ns:.1f} ns")
    output().print(f"  from {path.start} to {path.end}: {' '.join(path.cells)}")


def _paths(result: Area, count: int) -> Table:
    """The longest paths, each to another register."""
    shown = table("longest paths", "clocks", "ns", "levels", "from", "to", "cells (loads)")
    all_paths = [(clocks, path) for clocks, paths in result.paths.paths.items() for path in paths]
    all_paths += [(kind, path) for kind in ("inputs", "outputs") for path in getattr(result.paths, kind)]
    for clocks, path in sorted(all_paths, key=lambda one: -one[1].estimate_ns)[:count]:
        ends = (path.start, path.end, " ".join(path.cells))
        shown.add_row(clocks, f"{path.estimate_ns:.2f}", str(path.levels), *ends)
    return shown


def _table(result: Area) -> Table:
    used = [name for name in COLUMNS if getattr(result.total, name) or getattr(result.part, name, 0)]
    title = f"{result.config.name} on {result.part.name}, mapped by Yosys {result.yosys}"
    shown = table(title, "unit", *(COLUMNS[name] for name in used))
    for unit in result.units:
        depth = unit.path.count(".")
        shown.add_row("  " * depth + unit.module.removeprefix("vdla_"), *_cells(unit.usage, used))
    shown.add_section()
    shown.add_row("total", *_cells(result.total, used), style="bold")
    limits = result.shares()
    shown.add_row(result.part.name, *(f"{limits[name][1]:,}" if name in limits else "" for name in used), style="dim")
    shown.add_row("share", *(_share(*limits[name]) if name in limits else "" for name in used))
    return shown


def _cells(usage: Usage, names: list[str]) -> list[str]:
    return [f"{getattr(usage, name):,g}" if name == "bram36" else f"{getattr(usage, name):,}" for name in names]


def _share(used: float, available: int) -> str:
    return f"{100 * used / available:.1f} %" if available else ("-" if used == 0 else "none on it")
