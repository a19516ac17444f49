"""`vdla verify`: can a program hang, race, leave its memory, or hold an invalid instruction?"""

from __future__ import annotations

import argparse
from pathlib import Path

from vdla.commands import FINDING, OK
from vdla.commands.console import progress
from vdla.commands.files import read_program
from vdla.hardware.config import Config

NAME = "verify"
HELP = "prove that programs cannot hang, race or leave their memory"
EXAMPLES = """\
  vdla verify c2.vdla            exit code 1 when a program is refused
  vdla verify *.vdla kernel.s    several; .s is assembly text
  vdla verify c2.vdla --for ultra96   on another machine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The programs and the machine."""
    parser.add_argument("programs", nargs="+", type=Path, metavar="PROGRAM", help="a program file, or assembly text")
    parser.add_argument(
        "--for", dest="device", metavar="PRESET", help="a machine other than the one it was compiled for"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict on each program."""
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
