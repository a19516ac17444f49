# SPDX-License-Identifier: Apache-2.0
"""`vdla view`: a run as a page of HTML that can be stepped through, forwards and backwards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.arrays import with_random
from vdla.commands.console import progress
from vdla.commands.device_options import add_device_arguments, device_options
from vdla.commands.files import is_model, require_folder
from vdla.commands.machine_options import add_dram_arguments, add_machine_arguments, machine, with_dram
from vdla.commands.options import add_options, refuse
from vdla.commands.program_file import read_program
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vdla.hardware.program import Program
    from vdla.simulator.stats import RunStats
    from vdla.simulator.verify import VerifyError
    from vdla.viewer.recording import Recording

    _Program = tuple[Program, tuple[tuple[str, int], ...]]

EXAMPLES = """\
  vdla view c6.vdla                      a program, as view.html
  vdla view C6 -o c6.html                a layer, compiled for pynq_z1
  vdla view model.vdla                   all programs of a network
  vdla view conv2d --shape height=14 width=14 in_channels=16 \\
      out_channels=16 kernel=3 --preset ultra96
  vdla view slow.vdla --with c6.vdla     two runs, one above the other
  vdla view c6.vdla --device rtl         the run of the Verilated RTL
  vdla view c6.vdla --dram read_latency=200
"""

_OF_OPERATORS = ("shape", "preset", "config", "threads")
"""Options that a file has not."""
_THREADS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What runs, where, the page."""
    text = "a program, assembly (.s), a compiled network, a template, or a layer such as C6"
    add_options(parser, {"program PROGRAM": text}, _names)
    add_options(
        parser,
        {
            "--with PROGRAM": "a second one, which the page shows beside the first",
            "-o --output FILE": "the page (default view.html)",
            "--shape KEY=N...": "the template's options, such as kernel=1x3",
            "--threads N": "virtual threads of a template or a layer (default 2)",
            "--seed SEED = 0": "seed of the inputs on another device than sim (default 0)",
        },
    )
    add_device_arguments(parser)
    add_machine_arguments(parser)
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the programs, write the page, print where it is."""
    from vdla.viewer.view import RunView

    device_options("view", arguments)
    output = arguments.output or Path("view.html")
    require_folder("view", "--output", output)
    words = [word for word in (arguments.program, getattr(arguments, "with")) if word]
    recordings = []
    with progress("view") as show:
        viewed = [_programs(word, arguments) for word in words]
        alike = len(viewed) > 1 and viewed[0][0] == viewed[1][0]
        for number, (word, (title, programs)) in enumerate(zip(words, viewed, strict=True)):
            show(str(word), number, len(words))
            recordings.append(_recording(str(word) if alike else title, programs, arguments))
    RunView(tuple(recordings)).save(output)
    for one in recordings:
        print(f"{one.title}: {one.head['cycles']:,} cycles, {len(one.times['unit']):,} instructions")
    print(f"wrote {output}")
    return OK


def _recording(title: str, programs: Sequence[_Program], arguments: argparse.Namespace) -> Recording:
    from vdla.viewer.recording import ViewedProgram, recording

    parts = [ViewedProgram(program, _statistics(program, arguments), operators) for program, operators in programs]
    return recording(title, parts)


def _programs(word: Path, arguments: argparse.Namespace) -> tuple[str, Sequence[_Program]]:
    """The name of what a word stands for, and its programs with their operators."""
    if is_model(word):
        from vdla.runtime.executor.artifact import Artifact
        from vdla.viewer.view import network_programs

        refuse("view", arguments, _OF_OPERATORS, "for a file")
        artifact = Artifact.load(word)
        return artifact.plan.name, network_programs(artifact)
    if word.exists() or word.suffix or word.parent != Path():
        refuse("view", arguments, _OF_OPERATORS, "for a file")
        program = read_program(word)
    else:
        program = _compiled(str(word), arguments)
    return program.name, [(program, ())]


def _compiled(name: str, arguments: argparse.Namespace) -> Program:
    """The program of a layer or a template."""
    from vdla.commands.named_operators import from_settings, from_workload, refuse_shape, templates
    from vdla.compiler.operators.workloads import workload, workloads

    config, threads = machine(arguments), arguments.threads or _THREADS
    if name in templates():
        return from_settings("view", name, config, arguments.shape, threads).program
    if name.upper() not in workloads():
        rule = f"program must be a file, or {one_of(name, _names())}"
        raise CommandError(f"view: {rule}")
    refuse_shape("view", name, arguments.shape)
    return from_workload(workload(name), config, threads).program


def _names() -> list[str]:
    """The templates and the layers."""
    from vdla.commands.named_operators import layer_names, templates

    return [*templates(), *layer_names()]


def _statistics(program: Program, arguments: argparse.Namespace) -> RunStats:
    from vdla.runtime.devices import open_device
    from vdla.runtime.devices.run import run as run_on
    from vdla.simulator.timing import time_program
    from vdla.simulator.verify import VerifyError, require_verified

    config = with_dram(program.config, arguments.dram)
    if arguments.device == "sim":
        try:
            require_verified(program)
        except VerifyError as error:
            raise CommandError(f"view: a program must pass vdla verify, got {error}{_hint(error)}") from None
        return time_program(program, config)
    with open_device(arguments.device, config, **device_options("view", arguments)) as device:
        return run_on(program, with_random(program, {}, arguments.seed), device).statistics


def _hint(error: VerifyError) -> str:
    """What shows a program that only hangs or races."""
    from vdla.debugger.debug import OF_ORDER

    of_order = all(finding.kind in OF_ORDER for finding in error.verdict.findings)
    return "; vdla debug shows how far it runs" if of_order else ""
