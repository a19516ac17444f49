# SPDX-License-Identifier: Apache-2.0
"""`vdla board list`: the boards in a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vdla.commands import OK
from vdla.commands.console import output, table
from vdla.commands.files import write_json
from vdla.commands.options import add_options

if TYPE_CHECKING:
    from vdla.boards.board import Board

EXAMPLES = """\
  vdla board list         a line for each board
  vdla board list --json  every field of them for a program to read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The form."""
    add_options(parser, {"--json": "write JSON to FILE, or to standard output in place of tables"})


def run(arguments: argparse.Namespace) -> int:
    """Print the boards that come with VDLA."""
    from vdla.boards.board import board_names, load_board

    boards = [load_board(name) for name in board_names()]
    if write_json(arguments.json, [board.to_dict() for board in boards]):
        return OK
    shown = table("boards", "name", "part", "MHz", "port", "control at", "machines")
    for board in boards:
        shown.add_row(*_cells(board), board.preset)
        for name in board.machines[1:]:
            shown.add_row("", "", "", "", "", name)
    output().print(shown)
    return OK


def _cells(board: Board) -> tuple[str, ...]:
    port = board.memory_ports[0].removesuffix("_FPD").removeprefix("S_AXI_")
    width = f"{port} x {board.memory_port_bits}"
    return (board.name, board.part, f"{board.clock_mhz:.0f}", width, f"{board.control_base:#x}")
