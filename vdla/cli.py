# SPDX-License-Identifier: Apache-2.0
"""The command line `vdla`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.commands import COMMANDS, Command, load
from vdla.commands.command_line import CommandLine, Parser

EXAMPLES = """\
examples:
  vdla demo                           a whole network, checked and profiled
  vdla compile model.onnx -o m.vdla   a network as one file
  vdla run m.vdla --input x.npy       run it on the simulator
  vdla compile C2 -o c2.vdla          a program file from a named layer
  vdla run c2.vdla --random-inputs 0  run it on the simulator
  vdla help COMMAND                   more on one command
"""


def _line() -> CommandLine:
    description = "Compile networks for the VDLA accelerator and for CPUs, simulate and verify."
    return CommandLine("vdla", "vdla", description, EXAMPLES, COMMANDS, load)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return _line().main(arguments)


def parsers(loaded: Mapping[str, Command]) -> tuple[Parser, dict[str, Parser]]:
    """The parser and those of the commands; only `loaded` commands have their arguments."""
    return _line().parsers(loaded)
