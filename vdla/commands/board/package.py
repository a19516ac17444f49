# SPDX-License-Identifier: Apache-2.0
"""`vdla board package`: a bitstream as a wheel for the board, with notebooks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK
from vdla.commands.console import output, progress
from vdla.commands.machine_options import add_extension_argument, read_config, with_extensions
from vdla.commands.options import add_options

if TYPE_CHECKING:
    from vdla.boards.board import Board
    from vdla.boards.overlay_package import OverlayPackage

EXAMPLES = """\
  vdla board package pynq_z2 --bitstream pynq_z2.bit -o dist
  vdla board package pynq_z2 --bitstream a.bit --hwh b.hwh
  vdla board package my_board.json --config my_machine.json --bitstream mine.bit
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The board, the files, the machine, the folder."""
    text = "the board, by name (vdla board list) or by the JSON file that describes it"
    add_options(parser, {"board BOARD": text})
    add_options(parser, {"--bitstream FILE.bit": "the bitstream that Vivado has built"}, required=True)
    options = {
        "--hwh FILE.hwh": "the handoff file of the same build (default: beside the bitstream)",
        "--accept-build HASH": "accept a bitstream of this build, though other sources are installed",
        "-o --output DIR = dist": "folder (default dist)",
    }
    add_options(parser, options)
    machine = {
        "--preset NAME": "the board's machine in it (default: the one that the handoff file names)",
        "--config FILE": "another machine, like vdla config NAME --json",
    }
    add_options(parser.add_mutually_exclusive_group(), machine)
    add_extension_argument(parser, "an instruction of the machine")


def run(arguments: argparse.Namespace) -> int:
    """Check both files, write the wheel and that for boards, say what comes next."""
    from vdla.boards.bit_file import is_virtual, read_bit
    from vdla.boards.board import load_board
    from vdla.boards.on_board_wheel import build_wheel
    from vdla.commands.board.wheel import self_test_programs

    package = _package(arguments, load_board(arguments.board))
    for path in (build_wheel(arguments.output, self_test_programs()), package.write(arguments.output)):
        output().print(f"wrote {path}", soft_wrap=True)
    if is_virtual(read_bit(arguments.bitstream)):
        output().print(f"{arguments.bitstream} is of the virtual board: a real one does not load it", soft_wrap=True)
    output().print(
        f"next, with both on the board and as root: pip3 install --no-index vdla_*.whl && pynq get-notebooks "
        f"{package.module}",
        soft_wrap=True,
    )
    return OK


def _package(arguments: argparse.Namespace, board: Board) -> OverlayPackage:
    """The package, after all checks; what is cheap to check comes first."""
    from vdla.boards.handoff_check import check_bitstream, check_handoff, machine_of, read_bitstream
    from vdla.boards.handoff_file import HandoffFile
    from vdla.boards.overlay_package import OverlayPackage, check_packable
    from vdla.commands.board.package_examples import package_examples
    from vdla.runtime.diagnosis.check_programs import simulated_programs
    from vdla.runtime.diagnosis.known_program import known_bytes

    bitstream: Path = arguments.bitstream
    bit, content = read_bitstream(bitstream)
    handoff = HandoffFile(arguments.hwh or bitstream.with_suffix(".hwh"))
    if arguments.config:
        config = board.check_config(read_config(arguments.config))
    else:
        config = board.config(arguments.preset) if arguments.preset else machine_of(handoff, board)
    config = with_extensions(config, arguments.extension)
    check_packable(config)
    check_handoff(handoff, board, config, arguments.accept_build)
    check_bitstream(bitstream, bit, handoff, board)
    with progress("notebooks") as show:
        show(config.name, 0, 1)
        return OverlayPackage(
            board=board,
            config=config,
            build=handoff.parameters["BUILD"],
            bitstream=content,
            handoff=handoff.content,
            examples=package_examples(config, board.cpu),
            programs=known_bytes(simulated_programs(config)),
        )
