# SPDX-License-Identifier: Apache-2.0
"""`vdla board wheel`: the part of VDLA that runs on a board, as a wheel of its own."""

from __future__ import annotations

import argparse

from vdla.commands import OK
from vdla.commands.console import output, progress
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

    output().print(f"wrote {build_wheel(arguments.output, self_test_programs())}", soft_wrap=True)
    return OK


def self_test_programs() -> dict[str, bytes]:
    """The programs of the self-test, by the fingerprint of each machine that a board offers."""
    from vdla.boards.board import board_names, load_board
    from vdla.hardware.config import Config
    from vdla.runtime.diagnosis.check_programs import simulated_programs
    from vdla.runtime.diagnosis.known_program import known_bytes

    presets = {preset for name in board_names() for preset in load_board(name).presets}
    machines = {config.fingerprint: config for config in map(Config.preset, sorted(presets))}
    with progress("self-test") as show:
        result: dict[str, bytes] = {}
        for fingerprint, config in machines.items():
            show(config.name, len(result), len(machines))
            result[fingerprint] = known_bytes(simulated_programs(config))
    return result
