# SPDX-License-Identifier: Apache-2.0
"""The folder from which Vivado builds a machine for a board.

The invariant: whatever depends on the board or the machine is in `settings.tcl` and `rtl`; the
scripts are the same for all. Nothing here has ever run in Vivado, only against a recording model of
its commands (`tests/boards/vivado`).
"""

from __future__ import annotations

from pathlib import Path

from vdla.boards.board import Board
from vdla.boards.vivado.readme import render_readme
from vdla.boards.vivado.settings import render_settings
from vdla.hardware.config import Config
from vdla.hardware.fpga.parts import PARTS
from vdla.hardware.generate.verilog_files import verilog_files

SCRIPTS = ("build.tcl", "environment.tcl", "package_ip.tcl", "block_design.tcl", "implement.tcl")
"""The scripts in the order in which they run; the first one starts the others."""

RTL = "rtl"
_FOLDER = Path(__file__).resolve().parent
_MEMORY = "vdla_ram.sv"
_ULTRA_RAM = "`define VDLA_ULTRA_RAM  // this part has UltraRAM\n"


def flow_files(board: Board, config: Config) -> dict[str, str]:
    """The text of every file by its path in the folder; BoardError if the board cannot run it."""
    board.check_config(config)
    rtl = rtl_texts(board, config)
    scripts = {name: (_FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS}
    return {
        "README.md": render_readme(board, config),
        "settings.tcl": render_settings(board, config, list(rtl)),
        "constraints.xdc": render_constraints(board, config),
        **scripts,
        **{f"{RTL}/{name}": text for name, text in rtl.items()},
    }


def rtl_texts(board: Board, config: Config) -> dict[str, str]:
    """The RTL in reading order. A packaged IP gets no defines of its project, so UltraRAM is chosen
    in the file that asks for it.
    """
    files = verilog_files(config, board.address_bits)
    if PARTS[board.fpga].uram:
        files[_MEMORY] = _ULTRA_RAM + files[_MEMORY]
    return files


def render_constraints(board: Board, config: Config) -> str:
    """The constraints: no pin of the fabric is used, and the clocks come with the cells."""
    lines = [
        f"# {board.title}, {config.name}. The design has no pins in the fabric: memory, control and",
        "# interrupt are connections to the processing system, whose pins are its own. Clocks are",
        "# constrained by the processing system's cell and by that of the MMCM, if there is one; both",
        "# clocks of an MMCM are timed against each other.",
        "set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]",
    ]
    return "\n".join(lines) + "\n"
