"""`vdla verify`: proves programs free of deadlocks, races, accesses out of bounds, bad encoding."""

from __future__ import annotations

import argparse
from pathlib import Path

from vdla.commands import FINDING, OK
from vdla.commands.completion import complete_with
from vdla.commands.console import progress
from vdla.commands.files import read_program
from vdla.commands.machine_options import add_extension_argument, preset_names
from vdla.hardware.config import Config

EXAMPLES = """\
  vdla verify c2.vdla            exit code 1 when a program is refused
  vdla verify *.vdla kernel.s    several; .s is assembly text
  vdla verify c2.vdla --for ultra96   on another machine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The programs and the machine."""
    parser.add_argument("programs", nargs="+", type=Path, metavar="PROGRAM", help="a program file, or assembly text")
    add_extension_argument(parser, "an extension that a program needs")
    preset = parser.add_argument(
        "--for", dest="device", metavar="PRESET", help="a machine other than the one it was compiled for"
    )
    complete_with(preset, preset_names)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict on each program; exit code 1 when one is refused."""
    from vdla.simulator.verify import verify

    device = Config.preset(arguments.device) if arguments.device else None
    verdicts = []
    with progress("verify") as show:
        for index, path in enumerate(arguments.programs):
            show(path.name, index, len(arguments.programs))
            verdicts.append(verify(read_program(path), device))
    for verdict in verdicts:
        print(verdict)
    return OK if all(verdict.ok for verdict in verdicts) else FINDING
