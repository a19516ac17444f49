# SPDX-License-Identifier: Apache-2.0
"""The two files from which pynq opens an overlay on the virtual board: CONFIG.bit and CONFIG.hwh.

They name the same machine, and the bitstream has the hash of the other file, by which pynq's cache
knows them.
"""

from __future__ import annotations

from pathlib import Path

from vdla.boards.bit_file import virtual_bit, write_bit
from vdla.boards.board import Board
from vdla.boards.hwh import render_hwh
from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.support.atomic import write_text


def write_overlay(board: Board, config: Config, folder: Path) -> Path:
    """Write both files for a configuration of a board; the path of the bitstream."""
    build = build_hash(config)
    hwh = render_hwh(board, config, build)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{config.name}.hwh", hwh)
    bitstream = folder / f"{config.name}.bit"
    write_bit(bitstream, virtual_bit(board, config, build, hwh))
    return bitstream
