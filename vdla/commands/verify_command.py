# SPDX-License-Identifier: Apache-2.0
"""`vdla verify`: proves programs free of deadlocks, races, accesses out of bounds, bad encoding."""

from __future__ import annotations

import argparse

from vdla.commands import FINDING, OK
from vdla.commands.console import progress
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.options import add_options
from vdla.commands.program_file import read_program
from vdla.hardware.config import Config

EXAMPLES = """\
  vdla verify c2.vdla            exit code 1 when a program is refused
  vdla verify *.vdla kernel.s    several; .s is assembly text
  vdla verify c2.vdla --for ultra96   on another machine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The programs and the machine."""
    add_options(parser, {"programs PROGRAM": "a program file, or assembly text"}, nargs="+")
    add_extension_argument(parser, "an extension that a program needs")
    add_options(parser, {"--for PRESET": "verify for a machine other than the one it was compiled for"}, dest="device")


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
