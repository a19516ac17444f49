# SPDX-License-Identifier: Apache-2.0
"""`vdla board`: subcommands about boards: `board/NAME.py` has `EXAMPLES`, `add_arguments`, `run`.

A subcommand imports what it needs inside its functions, as a command does.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import cast

from vdla.commands import Command

SUBCOMMANDS = {
    "list": "list the boards: part, presets, clock, ports, addresses",
    "vivado": "write the folder from which Vivado builds a bitstream",
    "wheel": "write the part of VDLA that runs on a board as a wheel of its own",
    "package": "write a bitstream, checked, as a wheel for the board, with notebooks",
    "serve": "start a virtual board for clients of pynq, or serve a device for pynq://",
    "status": "say what boards do and who uses them",
    "certificates": "make the certificates of a server and its clients",
    "selftest": "check a device and measure its memory",
}
"""Every subcommand and its one line of help, in the order in which the help lists them."""

EXAMPLES = """\
  vdla board list
  vdla board vivado pynq_z2 -o build/pynq_z2
  vdla board package pynq_z2 --bitstream pynq_z2.bit
  vdla board serve --preset pynq_z1 --overlay build/overlay
  vdla board selftest --device pynq -o measured.json
  vdla board SUBCOMMAND --help               more on one of them
"""


def load_subcommand(name: str) -> Command:
    """The module of a subcommand."""
    return cast(Command, import_module(f"vdla.commands.board.{name}"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A parser for each subcommand."""
    subparsers = parser.add_subparsers(metavar="SUBCOMMAND", dest="subcommand", required=True)
    for name, text in SUBCOMMANDS.items():
        subcommand = load_subcommand(name)
        subparser = subparsers.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"examples:\n{subcommand.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subcommand.add_arguments(subparser)
        debug = "show the traceback of an error"
        subparser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=debug)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    return load_subcommand(arguments.subcommand).run(arguments)
