# SPDX-License-Identifier: Apache-2.0
"""`vdla board wheel`: the part of VDLA that runs on a board, as a wheel of its own."""

from __future__ import annotations

import argparse

from vdla.commands import OK
from vdla.commands.console import output
from vdla.commands.options import add_options

EXAMPLES = """\
  vdla board wheel -o dist     dist/vdla_board-VERSION-py3-none-any.whl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder."""
    add_options(parser, {"-o --output DIR = dist": "folder (default dist)"})


def run(arguments: argparse.Namespace) -> int:
    """Write the wheel."""
    from vdla.boards.on_board_wheel import build_wheel

    output().print(f"wrote {build_wheel(arguments.output)}", soft_wrap=True)
    return OK
