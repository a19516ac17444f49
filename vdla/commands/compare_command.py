# SPDX-License-Identifier: Apache-2.0
"""`vdla compare`: the same program or network on two devices, and their first difference."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.arrays import read_inputs, with_random
from vdla.commands.compare_random import OF_RANDOM, run_random
from vdla.commands.console import output, progress, table
from vdla.commands.files import is_model, require_folder
from vdla.commands.machine_options import add_dram_arguments, add_machine_arguments, with_dram
from vdla.commands.model_inputs import model_inputs
from vdla.commands.options import add_options, refuse
from vdla.commands.program_file import read_program

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program
    from vdla.runtime.devices import Device
    from vdla.runtime.diagnosis.comparison import Comparison
    from vdla.runtime.diagnosis.network_comparison import NetworkComparison, RegionRun
    from vdla.runtime.executor.artifact import Artifact

EXAMPLES = """\
  vdla compare sim rtl c2.vdla           exit code 1 when they differ
  vdla compare sim rtl c2.vdla --seed 7 --dram read_latency=200 beat_cycles=2
  vdla compare sim pynq c2.vdla --bitstream pynq_z2.bit --results-only
  vdla compare sim rtl c2.vdla --waves diff.fst
  vdla compare sim rtl c2.vdla --view both.html
  vdla compare sim rtl --random load.y_after --preset tiny
  vdla compare sim farm.toml model.vdla --input x.npy
                                         a wrong result of a network, down to
                                         layer, instruction and entry
"""

_NO_WAVES = "no waves: they show a difference, and there is none"
_NEIGHBOURS = 10  # rows of the table around the first difference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The devices, the program, its inputs."""
    text = "sim, rtl, pynq or pynq://HOST:PORT"
    add_options(parser, {"first DEVICE": text, "second DEVICE": text}, "vdla.runtime.devices:DEVICES")
    text = "a program file, assembly text (.s) or a compiled network"
    add_options(parser, {"program PROGRAM": text}, nargs="?")
    add_options(
        parser,
        {
            "--random FORM.FIELD": "in place of a program, random ones that drive a field to its extremes, "
            "such as load.y_after; the first that differs is shrunk",
            "--programs N": "how many of them (default 100)",
            "-o --output FILE": "the smallest program that differs, as assembly text (default FORM.FIELD.s)",
        },
    )
    add_machine_arguments(parser)
    add_options(
        parser,
        {
            "--input NAME=FILE...": "packed arrays as .npy files; "
            "of a network plain ones, also FILE.npy for its only input",
            "--seed SEED = 0": "seed of the inputs without a file, or of the first random program (default 0)",
            "--timeout CYCLES": "stop a run that takes more cycles",
            "--assertions": "stop the RTL at a failed assertion",
            "--bitstream FILE": "the bitstream to load, for a board",
            "--results-only": "cycles and counters may differ",
            "--view FILE": "write a page that steps through both runs; of a network, the region that differs, or all",
            "--waves FILE.fst": "write waveforms of rtl around the first difference, with views for GTKWave and Surfer",
        },
    )
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run on both devices and print the differences; exit code 1 when there are any."""
    names = (arguments.first, arguments.second)
    if arguments.assertions and "rtl" not in names:
        raise CommandError(f"compare: --assertions must be left out without rtl, got {' and '.join(names)}")
    if arguments.waves is not None:
        _check_waves(arguments)
    if arguments.view is not None:
        require_folder("compare", "--view", arguments.view)
    if arguments.bitstream and not any(map(_is_board, names)):
        raise CommandError(f"compare: --bitstream must be left out without a board, got {' and '.join(names)}")
    if arguments.random is not None:
        return run_random(arguments)
    refuse("compare", arguments, OF_RANDOM, "without --random")
    if arguments.program is None:
        raise CommandError("compare: PROGRAM must be given, or --random FORM.FIELD, got neither")
    return _run_network(arguments) if is_model(arguments.program) else _run_program(arguments)


def _run_program(arguments: argparse.Namespace) -> int:
    from vdla.runtime.diagnosis.comparison import compare, memory_bytes

    names = (arguments.first, arguments.second)
    program = read_program(arguments.program)
    config = with_dram(program.config, arguments.dram)
    arrays = with_random(program, read_inputs(arguments.input), arguments.seed)
    with progress(f"compare {program.name}") as show, ExitStack() as stack:
        show(" and ".join(names), 0, 1)
        one, other = (stack.enter_context(_open(name, config, arguments, memory_bytes(program))) for name in names)
        comparison = compare(program, arrays, (one, other))
    print(comparison)
    _show(comparison)
    if arguments.view is not None:
        print(_page(comparison, arguments.view))
    if arguments.waves is not None:
        print(_waves(comparison, arrays, arguments))
    return OK if _agree(comparison, arguments) else FINDING


def _run_network(arguments: argparse.Namespace) -> int:
    from vdla.runtime.diagnosis.network_comparison import compare_network
    from vdla.runtime.executor.artifact import Artifact

    artifact = Artifact.load(arguments.program)
    if artifact.config is None:
        raise CommandError(f"compare: network must have programs, got {artifact.plan.name}, which runs on the CPU")
    inputs = model_inputs(artifact.plans, arguments.input, arguments.seed, "compare")
    config, names = with_dram(artifact.config, arguments.dram), (arguments.first, arguments.second)
    with progress(f"compare {artifact.plan.name}") as show, ExitStack() as stack:
        one, other = (stack.enter_context(_open(name, config, arguments)) for name in names)
        for number, arrays in enumerate(inputs.runs):
            show(f"input {number + 1}", number, len(inputs))
            comparison = compare_network(artifact, arrays, (one, other))
            if not _agree(comparison, arguments) or (_shows_runs(arguments) and comparison.region is not None):
                break
    print(comparison)
    if _shows_runs(arguments):
        for line in _shown(artifact, comparison, arguments):
            print(line)
    return OK if _agree(comparison, arguments) else FINDING


def _agree(comparison: Comparison | NetworkComparison, arguments: argparse.Namespace) -> bool:
    return comparison.same_results if arguments.results_only else comparison.equal


def _check_waves(arguments: argparse.Namespace) -> None:
    names, waves = (arguments.first, arguments.second), arguments.waves
    if "rtl" not in names:
        raise CommandError(f"compare: --waves must be left out without rtl, got {' and '.join(names)}")
    if waves.suffix != ".fst":
        raise CommandError(f"compare: --waves must name a .fst file, got {waves}")
    require_folder("compare", "--waves", waves)


def _waves(
    comparison: Comparison, arrays: Mapping[str, Any], arguments: argparse.Namespace, culprit: int | None = None
) -> str:
    """Write the waveforms of a difference; a line that says which."""
    from vdla.runtime.devices.rtl import RtlDevice
    from vdla.runtime.diagnosis.comparison import memory_bytes
    from vdla.runtime.diagnosis.wave_window import record_waves

    if comparison.equal:
        return _NO_WAVES
    program = comparison.program
    config, size = with_dram(program.config, arguments.dram), memory_bytes(program)

    def open_rtl(window: tuple[int, int]) -> RtlDevice:
        options: dict[str, Any] = {"assertions": arguments.assertions, "waves": arguments.waves, "window": window}
        return RtlDevice(config, size, arguments.timeout, **options)

    return str(record_waves(comparison, arrays, open_rtl, arguments.waves, culprit))


def _shows_runs(arguments: argparse.Namespace) -> bool:
    """Whether a file shows the runs that differ."""
    return arguments.waves is not None or arguments.view is not None


def _page(comparison: Comparison, file: Path) -> str:
    """Write a page of both runs; a line that says so."""
    from vdla.viewer.view import view

    view(comparison).save(file)
    return f"wrote {file}"


def _shown(artifact: Artifact, comparison: NetworkComparison, arguments: argparse.Namespace) -> Iterator[str]:
    """Write the page and the waveforms that options ask for; lines that say which."""
    region, difference = comparison.region, comparison.difference
    if region is not None:
        yield from _shown_region(region, comparison, arguments)
    elif difference is not None:
        yield f"nothing to show: step {difference.number} ({difference.step.name}) runs no program"
    else:
        if arguments.view is not None:
            from vdla.viewer.view import compared_network

            compared_network(artifact, comparison).save(arguments.view)
            yield f"wrote {arguments.view}"
        if arguments.waves is not None:
            yield _NO_WAVES


def _shown_region(region: RegionRun, comparison: NetworkComparison, arguments: argparse.Namespace) -> Iterator[str]:
    """Those of the program that differs first, which runs again alone."""
    from vdla.runtime.diagnosis.comparison import compare, memory_bytes

    difference = comparison.difference
    config, size = with_dram(region.program.config, arguments.dram), memory_bytes(region.program)
    names, where = (arguments.first, arguments.second), f"step {region.number} ({region.step.name})"
    with ExitStack() as stack:
        one, other = (stack.enter_context(_open(name, config, arguments, size)) for name in names)
        alone = compare(region.program, region.arrays, (one, other))
    if arguments.view is not None:
        yield f"{where}: {_page(alone, arguments.view)}"
    if arguments.waves is not None and alone.equal:
        yield f"no waves: the program of {where} alone runs alike on both"
    elif arguments.waves is not None:
        cause = None if difference is None or difference.culprit is None else difference.culprit.instruction
        yield f"{where}: {_waves(alone, region.arrays, arguments, cause)}"


def _is_board(name: str) -> bool:
    """Whether a device has memory of its own: a board, a remote device, or one of a farm."""
    return name == "pynq" or "://" in name or name.endswith(".toml")


def _open(name: str, config: Config, arguments: argparse.Namespace, memory_bytes: int | None = None) -> Device:
    """The device; a simulated one has `memory_bytes`, as much as a program needs."""
    from vdla.runtime.devices import open_device

    options: dict[str, Any] = {}
    if arguments.timeout is not None:
        options["timeout_cycles"] = arguments.timeout
    if memory_bytes is not None and not _is_board(name):
        options["memory_bytes"] = memory_bytes
    if name == "rtl":
        options["assertions"] = arguments.assertions
    if arguments.bitstream is not None and _is_board(name):
        options["bitstream"] = arguments.bitstream
    return open_device(name, config, **options)


# --- around the first difference ------------------------------------------------------------------


def _show(comparison: Comparison) -> None:
    """The first instruction that differs, and a table of the instructions around it."""
    difference = comparison.first_difference
    if difference is None:
        return
    console, program = output(), comparison.program
    console.print()
    console.print(f"instruction {difference.instruction}: {_text(program, difference.instruction)}", soft_wrap=True)
    line = int(program.source_of[difference.instruction])
    if line >= 0:
        console.print(f"from: {program.source_lines[line].strip()}", soft_wrap=True)
    console.print()
    console.print(_neighbourhood(comparison))


def _text(program: Program, row: int) -> str:
    from vdla.hardware.asm.disassembler import row_text

    return row_text(program, row)


def _neighbourhood(comparison: Comparison) -> Any:  # noqa: ANN401  a table of rich
    from vdla.hardware.isa import COL, Unit, isa_of
    from vdla.simulator.stats.times import EVENTS, latest_instructions

    difference, program = comparison.first_difference, comparison.program
    assert difference is not None
    one, other = (side.times for side in comparison.runs)
    cycle = min(cycle for cycle in difference.cycles if cycle >= 0)
    names = "/".join(side.device for side in comparison.runs)
    listing = table(f"up to cycle {cycle}, {names} where they differ", "", "unit", "opcode", *EVENTS)
    for k in latest_instructions(one, difference.instruction, cycle, _NEIGHBOURS):
        row = program.columns[k]
        cells = [_cycles(int(ours[k]), int(theirs[k])) for ours, theirs in zip(one, other, strict=True)]
        unit, opcode = Unit(int(row[COL["unit"]])).name.lower(), isa_of(program.config).format_at(row).name
        listing.add_row(str(k), unit, opcode, *cells, style="bold" if k == difference.instruction else None)
    return listing


def _cycles(one: int, other: int) -> str:
    return _cycle(one) if one == other else f"{_cycle(one)}/{_cycle(other)}"


def _cycle(cycle: int) -> str:
    return "never" if cycle < 0 else str(cycle)
