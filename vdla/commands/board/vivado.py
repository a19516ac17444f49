# SPDX-License-Identifier: Apache-2.0
"""`vdla board vivado`: everything that Vivado needs to build a machine for a board."""

from __future__ import annotations

import argparse

from vdla.commands import OK
from vdla.commands.files import make_folder
from vdla.commands.machine_options import add_extension_argument, read_config, with_extensions
from vdla.commands.options import add_options
from vdla.support.atomic import write_text
from vdla.support.licence import write_licence

EXAMPLES = """\
  vdla board vivado pynq_z2 -o build/pynq_z2
  vdla board vivado pynq_z1 --preset pynq_z1_512x2 -o build/fast
  vdla board vivado my_board.json -o build/mine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The board, the machine, the folder."""
    text = "the board, by name (vdla board list) or by the JSON file that describes it"
    add_options(parser, {"board BOARD": text})
    group = parser.add_mutually_exclusive_group()
    add_options(
        group,
        {
            "--preset NAME": "one of the board's machines (default: its first)",
            "--config FILE": "another machine, like vdla config NAME --json",
        },
    )
    add_extension_argument(parser, "an instruction to add to the machine")
    add_options(parser, {"-o --output DIR": "folder of the files"}, required=True)


def run(arguments: argparse.Namespace) -> int:
    """Write the scripts, their settings, the constraints and the RTL."""
    from vdla.boards.board import load_board
    from vdla.boards.vivado.flow import SCRIPTS, flow_files

    board = load_board(arguments.board)
    config = read_config(arguments.config) if arguments.config else board.config(arguments.preset)
    config = with_extensions(config, arguments.extension)
    files = flow_files(board, config)
    make_folder(arguments.output)
    for name, text in files.items():
        path = arguments.output / name
        make_folder(path.parent)
        write_text(path, text)
    write_licence(arguments.output)
    print(f"{arguments.output}: {len(files)} files for {config.name} on {board.title}")
    print(f"next, with Vivado 2022.1 or later: cd {arguments.output} && vivado -mode batch -source {SCRIPTS[0]}")
    return OK
