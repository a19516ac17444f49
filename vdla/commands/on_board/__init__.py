# SPDX-License-Identifier: Apache-2.0
"""The commands of the package for boards: `python -m vdla_board run|selftest|serve|info`.

They need NumPy and the standard library only, so that their tables are plain text. Each module
`NAME_command.py` has `EXAMPLES`, `add_arguments` and `run`, as those of `vdla`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from vdla.commands import Command
from vdla.commands.command_line import CommandLine

NAME = "vdla_board"
COMMANDS = {
    "run": "run a network or a program on this board",
    "selftest": "check the bitstream and the memory of this board",
    "serve": "serve this board to others, as pynq://HOST:PORT",
    "info": "say what this board has: versions, memory, bitstreams",
}
"""Every command and its one line of help."""

EXAMPLES = """\
examples, in a shell of root with PYNQ's Python (sudo -i, then . /etc/profile.d/pynq_venv.sh):
  python3 -m vdla_board info                what this board has
  python3 -m vdla_board selftest            does the bitstream work?
  python3 -m vdla_board run m.vdla --input x.npy
  python3 -m vdla_board serve --listen 0.0.0.0:7968 --tls certificates
"""


def load(name: str) -> Command:
    """The module of a command."""
    return cast(Command, import_module(f"vdla.commands.on_board.{name}_command"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    description = "Run compiled networks on this board, check it, and share it."
    return CommandLine(f"python -m {NAME}", NAME, description, EXAMPLES, COMMANDS, load).main(arguments)
