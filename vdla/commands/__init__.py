# SPDX-License-Identifier: Apache-2.0
"""The commands of `vdla`: `NAME_command.py` has `EXAMPLES`, `add_arguments` and `run`.

The file of a name with `-` has `_` there. The other modules of this folder are shared by commands.
A command imports the compiler and the simulator inside its functions, so that its `--help` answers
at once.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol, cast

from vdla.support.errors import Error

COMMANDS = {
    "demo": "compile, check and profile a whole network",
    "compile": "compile a network, or an operator into a program file",
    "map": "list the ways to compute an operator on a machine",
    "new-extension": "write the files of your own instruction, to begin with",
    "evaluate": "measure the benefit of your own instruction on real layers",
    "explore": "sweep the sizes of a machine for a network, on an FPGA",
    "selftest": "run the generated tests of your own instruction",
    "tune": "find the best schedule of an operator or of a model by measurement",
    "native": "compile an operator into an object file for a CPU",
    "run": "run a network or a program and break down its time",
    "generate": "continue a prompt with a language model",
    "view": "write a run as a page that steps through its cycles",
    "debug": "stop, step and read a run of a program, forwards and backwards",
    "explain": "show where the operators of a network run, and why",
    "profile": "measure the time of every operator of a network",
    "pack": "convert plain arrays to the packed arrays of a program",
    "unpack": "convert packed arrays of a program to plain arrays",
    "compare": "run a program or network on two devices, show the first difference",
    "verify": "prove that programs cannot hang, race or access memory out of bounds",
    "certify": "prove that a program computes its expression, for all inputs",
    "asm": "assemble text into a program file",
    "disasm": "print a program as assembly text",
    "isa": "print the instruction set of a machine",
    "config": "show the presets: the machines known by name",
    "area": "count the FPGA resources that a machine needs",
    "verilog": "write the hardware of a machine for a block design",
    "board": "list boards, build bitstreams for them",
    "quantise": "quantise a model on calibration data",
    "networks": "list the networks, or write one as an ONNX model",
    "puzzle": "learn the machine by puzzles that grade themselves",
    "bench": "run a benchmark",
    "paper": "measure a figure of TVM's paper again",
    "doctor": "check the installation and run a small program",
    "completion": "print the completion script of a shell",
}
"""Every command and its one line of help, in the order in which the help lists them."""

OK = 0
FINDING = 1
BAD_INPUT = 2
FAULT = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells report it

EXIT_CODES = f"""\
exit codes:
  {OK}    success
  {FINDING}    the command worked and the answer is no: a program refused, results
       that differ, a part too small, a requirement missing
  {BAD_INPUT}    an argument, a file or the environment cannot be used
  {FAULT}    a defect of vdla
  {INTERRUPTED}  interrupted
"""


class CommandError(Error, ValueError):
    """An argument that cannot be used."""


class Command(Protocol):
    """The interface of a command module."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


def load(name: str) -> Command:
    """The module of a command."""
    return cast(Command, import_module(f"vdla.commands.{name.replace('-', '_')}_command"))
