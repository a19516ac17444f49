"""`vdla board wheel`: the part of VDLA that runs on a board, as a wheel of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from vdla.commands import OK
from vdla.commands.console import output

EXAMPLES = """\
  vdla board wheel -o dist     dist/vdla_board-VERSION-py3-none-any.whl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder."""
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), metavar="DIR", help="folder (default dist)")


def run(arguments: argparse.Namespace) -> int:
    """Write the wheel."""
    from vdla.boards.on_board_wheel import build_wheel

    output().print(f"wrote {build_wheel(arguments.output)}", soft_wrap=True)
    return OK
