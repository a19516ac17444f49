"""`vdla compare`: the same program on two devices, and their first difference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.arrays import read_inputs, with_random
from vdla.commands.completion import complete_with
from vdla.commands.console import output, progress, table
from vdla.commands.files import read_program
from vdla.commands.machine_options import add_dram_arguments, natural, positive, with_dram

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program
    from vdla.runtime.compare import Comparison
    from vdla.runtime.devices import MemoryDevice

EXAMPLES = """\
  vdla compare sim rtl c2.vdla           exit code 1 when they differ
  vdla compare sim rtl c2.vdla --seed 7 --dram read_latency=200 beat_cycles=2
"""

_NEIGHBOURS = 10  # rows of the table around the first difference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The devices, the program, its inputs."""
    for name in ("first", "second"):
        complete_with(parser.add_argument(name, metavar="DEVICE", help="sim or rtl"), lambda: ("sim", "rtl"))
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="a program file, or assembly text (.s)")
    parser.add_argument("--input", nargs="+", default=[], metavar="NAME=FILE", help="packed arrays as .npy files")
    parser.add_argument("--seed", type=natural, default=0, help="seed of the inputs without a file (default 0)")
    parser.add_argument("--timeout", type=positive, metavar="CYCLES", help="stop a run that takes more cycles")
    parser.add_argument("--assertions", action="store_true", help="stop the RTL at a failed assertion")
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run on both devices and print the differences; exit code 1 when there are any."""
    from vdla.runtime.compare import compare

    names = (arguments.first, arguments.second)
    if arguments.assertions and "rtl" not in names:
        raise CommandError(f"compare: --assertions must be left out without rtl, got {' and '.join(names)}")
    program = read_program(arguments.program)
    config = with_dram(program.config, arguments.dram)
    arrays = with_random(program, read_inputs(arguments.input), arguments.seed)
    with progress(f"compare {program.name}") as show:
        show(" and ".join(names), 0, 1)
        with _open(names[0], program, config, arguments) as one, _open(names[1], program, config, arguments) as other:
            comparison = compare(program, arrays, (one, other))
    print(comparison)
    _show(comparison)
    return OK if comparison.equal else FINDING


def _open(name: str, program: Program, config: Config, arguments: argparse.Namespace) -> MemoryDevice:
    """The device, with as much memory as the program needs."""
    from vdla.runtime.compare import memory_bytes
    from vdla.runtime.devices import MemoryDevice, open_device

    options = {"memory_bytes": memory_bytes(program), "timeout_cycles": arguments.timeout}
    if name == "rtl":
        options["assertions"] = arguments.assertions
    device = open_device(name, config, **options)
    if not isinstance(device, MemoryDevice):
        raise CommandError(f"compare: device must have its memory in this process, got {name}")
    return device


# --- around the first difference ------------------------------------------------------------------


def _show(comparison: Comparison) -> None:
    """The first instruction that differs, and a table of the instructions around it."""
    found = comparison.first_difference
    if found is None:
        return
    console, program = output(), comparison.program
    console.print()
    console.print(f"instruction {found.instruction}: {_text(program, found.instruction)}", soft_wrap=True)
    line = int(program.source_of[found.instruction])
    if line >= 0:
        console.print(f"from: {program.source_lines[line].strip()}", soft_wrap=True)
    console.print()
    console.print(_neighbourhood(comparison))


def _text(program: Program, row: int) -> str:
    from vdla.hardware.asm.disassembler import row_text

    return row_text(program, row)


def _neighbourhood(comparison: Comparison) -> Any:  # noqa: ANN401  a table of rich
    from vdla.hardware.isa import COL, Opcode, Unit
    from vdla.simulator.stats.times import EVENTS, latest_instructions

    found, program = comparison.first_difference, comparison.program
    assert found is not None
    one, other = (side.times for side in comparison.runs)
    cycle = min(cycle for cycle in found.cycles if cycle >= 0)
    names = "/".join(side.device for side in comparison.runs)
    listing = table(f"up to cycle {cycle}, {names} where they differ", "", "unit", "opcode", *EVENTS)
    for k in latest_instructions(one, found.instruction, cycle, _NEIGHBOURS):
        row = program.columns[k]
        cells = [_cycles(int(ours[k]), int(theirs[k])) for ours, theirs in zip(one, other, strict=True)]
        unit, opcode = Unit(int(row[COL["unit"]])).name.lower(), Opcode(int(row[COL["opcode"]])).name
        listing.add_row(str(k), unit, opcode, *cells, style="bold" if k == found.instruction else None)
    return listing


def _cycles(one: int, other: int) -> str:
    return _cycle(one) if one == other else f"{_cycle(one)}/{_cycle(other)}"


def _cycle(cycle: int) -> str:
    return "never" if cycle < 0 else str(cycle)
