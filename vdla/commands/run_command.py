# SPDX-License-Identifier: Apache-2.0
"""`vdla run`: a network or a program on a device: its outputs, and what its cycles went to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.arrays import (
    OUTPUT_COLUMNS,
    Array,
    output_rows,
    outputs_document,
    read_inputs,
    require_all,
    with_random,
    write_outputs,
)
from vdla.commands.console import listing, output, progress
from vdla.commands.device_options import add_device_arguments, device_options
from vdla.commands.files import is_model, write_json
from vdla.commands.machine_options import add_dram_arguments, add_extension_argument, part_offsets, with_dram
from vdla.commands.model_inputs import add_input_arguments
from vdla.commands.options import add_options, refuse
from vdla.commands.program_file import read_program
from vdla.support.atomic import write_text
from vdla.support.text_table import text_table

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program
    from vdla.simulator.stats import RunStats

EXAMPLES = """\
  vdla run model.vdla --input x.npy --output out/     a network, plain arrays
  vdla run model.vdla --image cat.png --mean 0.5 --std 0.25
  vdla run c2.vdla --random-inputs 0       random data
  vdla run c2.vdla --random-inputs 0 --device rtl   on the Verilated RTL
  vdla run model.vdla --input x.npy --device pynq   on a board; see --bitstream
  vdla run c2.vdla --input data=x.npy weight=w.npy scale=s.npy --output out/
  vdla run c2.vdla --timing-only --dram read_latency=200 beat_cycles=2
  vdla run c2.vdla --timing-only --lines 5   the lines that stall most
  vdla run c2.vdla --timing-only --trace c2.trace.json
  vdla run c2.vdla --timing-only --picture c2.svg   over its schedule
  vdla run append.s --input x=x.npy --offset row=32
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, its inputs, the device, the output."""
    add_options(parser, {"program PROGRAM": "a compiled network, a program, or assembly (.s)"})
    add_extension_argument(parser, "an extension that the program needs")
    add_input_arguments(parser)
    add_options(
        parser,
        {
            "--output DIR": "write each output to DIR as a .npy file",
            "--timing-only": "simulate timing only: needs no inputs",
            "--offset PART=BYTES...": "where parts lie in their resident tensors, from the begin (default 0)",
        },
    )
    add_device_arguments(parser)
    add_options(
        parser,
        {
            "--timeout CYCLES": "stop a run that takes more cycles",
            "--trust HASH": "the SHA-256 of a network, or of its certificate, that is not verified again",
            "--waves FILE.fst": "write waveforms of a run on rtl, or with FILE.saif how often signals switch",
        },
    )
    add_dram_arguments(parser)
    add_options(
        parser,
        {
            "--lines N": "list the N lines that stall compute most",
            "--trace FILE": "write a trace for ui.perfetto.dev",
            "--konata FILE": "write a log for Konata, the viewer of pipelines",
            "--picture FILE": "draw the run over its schedule as SVG",
            "--table FILE": "write start and end of every instruction as text",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the program, write the files, print the tables."""
    if is_model(arguments.program):
        from vdla.commands.run_model import run_model

        return run_model(arguments)
    if arguments.program.exists():  # a file that is not there is neither
        refuse("run", arguments, ("image", "mean", "std", "scale", "trust"), "for a program")
    if arguments.timing_only:
        refuse("run", arguments, ("output", "input", "random_inputs"), "with --timing-only")
    _check_device(arguments)
    program = read_program(arguments.program)
    with progress(f"run {program.name}") as show:
        show("simulating" if arguments.device == "sim" else f"on {arguments.device}", 0, 1)
        outputs, stats = _execute(program, arguments)
    written = _write(program, outputs, stats, arguments)
    if not write_json(arguments.json, _document(outputs, stats, written)):
        _show(program, outputs, stats, arguments.lines or 0)
        _show_switching(arguments.waves)
        for path in written:
            output().print(f"wrote {path}", soft_wrap=True)
    return OK


def _check_device(arguments: argparse.Namespace) -> None:
    """Refuse options that the device does not have."""
    if arguments.timing_only and arguments.device != "sim":
        raise CommandError(f"run: --device must be sim with --timing-only, got {arguments.device}")
    if arguments.waves and arguments.device != "rtl":
        raise CommandError(f"run: --device must be rtl with --waves, got {arguments.device}")
    if arguments.lines and arguments.device != "sim":
        raise CommandError(
            f"run: --lines must be left out on {arguments.device}, which counts by unit, got {arguments.lines}"
        )
    device_options("run", arguments)


def _execute(program: Program, arguments: argparse.Namespace) -> tuple[dict[str, Array], RunStats]:
    config = with_dram(program.config, arguments.dram)
    offsets = part_offsets(arguments.offset)
    if arguments.timing_only:
        return {}, _timing(program, config, offsets, arguments.timeout)
    _check_memory(program)
    arrays = read_inputs(arguments.input)
    if arguments.random_inputs is not None:
        arrays = with_random(program, arrays, arguments.random_inputs)
    require_all(program, arrays)
    return _on_device(program, arrays, config, offsets, arguments)


def _check_memory(program: Program) -> None:
    """Refuse a program beyond the device's DRAM before its arrays take memory."""
    from vdla.runtime.devices import DEFAULT_BYTES
    from vdla.runtime.diagnosis.comparison import memory_bytes

    if (needed := memory_bytes(program)) > DEFAULT_BYTES:
        raise CommandError(
            f"run: the program must fit the {DEFAULT_BYTES} bytes of the device's DRAM, got {needed} bytes; "
            "--timing-only needs no memory"
        )


def _timing(program: Program, config: Config, offsets: Mapping[str, int], timeout: int | None) -> RunStats:
    from vdla.hardware.program.placement import place
    from vdla.simulator.timing import MAX_CYCLES, time_program
    from vdla.simulator.verify import require_verified

    require_verified(program)
    addresses, _ = place(program, offsets=offsets)
    return time_program(program, config, addresses, MAX_CYCLES if timeout is None else timeout)


def _on_device(
    program: Program,
    arrays: Mapping[str, Array],
    config: Config,
    offsets: Mapping[str, int],
    arguments: argparse.Namespace,
) -> tuple[dict[str, Array], RunStats]:
    from vdla.runtime.devices import open_device
    from vdla.runtime.devices.run import run as run_on

    given = {"timeout_cycles": arguments.timeout, "waves": arguments.waves}
    options = {name: value for name, value in given.items() if value is not None} | device_options("run", arguments)
    with open_device(arguments.device, config, **options) as device:
        result = run_on(program, arrays, device, offsets=offsets)
    return result.outputs, result.statistics


def _show_switching(waves: Path | None) -> None:
    """Print how often registers switched, where the file of --waves has that."""
    from vdla.runtime.devices.switching import SUFFIX, read_switching

    if waves is not None and waves.suffix == SUFFIX:
        output().print(str(read_switching(waves)), soft_wrap=True)


def _write(
    program: Program, outputs: Mapping[str, Array], stats: RunStats, arguments: argparse.Namespace
) -> list[Path]:
    """Write the files that were asked for; their paths."""
    from vdla.simulator.stats import RunTrace

    written = write_outputs(arguments.output, outputs) if arguments.output else []
    written += [arguments.waves] if arguments.waves else []
    if arguments.trace:
        RunTrace(program, stats).write(arguments.trace)
        written.append(arguments.trace)
    if arguments.konata:
        RunTrace(program, stats).write_konata(arguments.konata)
        written.append(arguments.konata)
    if arguments.picture:
        from vdla.commands.run_picture import run_picture

        write_text(arguments.picture, run_picture(program, stats))
        written.append(arguments.picture)
    if arguments.table:
        write_text(arguments.table, RunTrace(program, stats).table())
        written.append(arguments.table)
    return written


def _show(program: Program, outputs: Mapping[str, Array], stats: RunStats, lines: int) -> None:
    from vdla.commands import run_tables

    console, runs = output(), {program.config.name: stats}
    console.print(run_tables.comparison(program.name, runs, run_tables.FIGURES))
    console.print()
    console.print(run_tables.comparison("roofline", runs, run_tables.ROOFLINE))
    console.print()
    console.print(run_tables.stalls("", stats))
    if lines:
        console.print()
        console.print(run_tables.lines(program, stats, lines))
    if outputs:
        console.print()
        console.print(listing(text_table("outputs", OUTPUT_COLUMNS, output_rows(outputs))))


def _document(outputs: Mapping[str, Array], stats: RunStats, written: list[Path]) -> dict[str, Any]:
    return {**stats.to_dict(), "outputs": outputs_document(outputs), "written": [str(path) for path in written]}
