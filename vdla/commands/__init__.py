"""The subcommands of `vdla`, one a file, in the order in which the help lists them.

A command module has `NAME`, `HELP`, `EXAMPLES`, `add_arguments(parser)` and `run(arguments) -> exit code`. It imports
the compiler and the simulator inside its functions, so that `vdla --help` answers at once.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol, cast

from vdla.support.errors import Error

NAMES = (
    "demo", "compile", "native", "run", "compare", "verify", "asm", "disasm", "isa", "config", "area", "bench",
    "doctor",
)  # fmt: skip

OK = 0
FINDING = 1  # the command worked and what it looked at is not right
BAD_INPUT = 2
FAULT = 3  # a defect of vdla itself


class CommandError(Error, ValueError):
    """An argument that cannot be used."""


class Command(Protocol):
    """What a command module offers."""

    NAME: str
    HELP: str
    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


def load_all() -> list[Command]:
    """Every command module."""
    return [cast(Command, import_module(f"vdla.commands.{name}_command")) for name in NAMES]
