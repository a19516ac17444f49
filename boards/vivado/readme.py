# SPDX-License-Identifier: Apache-2.0
"""The page in a folder for Vivado: what is in it, how to build, and what has never been run."""

from __future__ import annotations

from vdla.boards.board import Board
from vdla.boards.ip import IP_NAME
from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash

_TEXT = """\
# {preset} for {title}

With Vivado 2022.1 or later, in this folder:

    vivado -mode batch -source build.tcl

writes `{output}.bit` and `{output}.hwh` beside this page, or ends with an error. Copy both to the
board, under one name, or let `vdla board package` make a wheel of them. Reports are in `build`.

| | |
|---|---|
| part | {part} |
| board files | {board_part}, from {board_files} |
| machine | {preset}, fingerprint {fingerprint}, build {build} |
| clock | {clock:g} MHz{fast} |
| memory | {memory} |
| control | {control_port} at {control_base:#x}; interrupt controller at {intc_base:#x}, on {interrupt} |

| file | what it does |
|---|---|
| `build.tcl` | runs the others, in this order |
| `settings.tcl` | the facts of this board and this machine |
| `environment.tcl` | checks Vivado's version, finds the board files |
| `package_ip.tcl` | packages `rtl` as an IP |
| `block_design.tcl` | connects it to the processing system |
| `implement.tcl` | synthesis, placement, routing, check of timing, the two files |
| `constraints.xdc` | constraints |
| `rtl` | the machine, in the order of `settings.tcl` |

**What has never been run.** VDLA is developed without Vivado. These scripts have been executed by
Tcl against a recording model of Vivado's commands, which checks the files, the names of commands
and their options, the ports, the connections and the addresses. Whether Vivado accepts every
setting, and whether the design meets its timing, has not been tried; `implement.tcl` refuses a
design that does not.
"""


def render_readme(board: Board, config: Config) -> str:
    """The text of the page."""
    ports = board.memory_ports[: config.axi_ports]
    coherent = "coherent with" if board.coherent else "not coherent with"
    fast = (
        f", multipliers at {config.array_rate * board.clock_mhz:g} MHz from one MMCM" if config.array_rate > 1 else ""
    )
    return _TEXT.format(
        title=board.title,
        preset=config.name,
        output=config.name if config.name.isidentifier() else IP_NAME,
        part=board.part,
        board_part=board.board_part,
        board_files=board.board_files,
        fingerprint=config.fingerprint,
        build=build_hash(config),
        clock=board.clock_mhz,
        fast=fast,
        memory=f"{' and '.join(ports)}, {config.port_bits} bits each, {coherent} the processor's caches",
        control_port=board.control_port,
        control_base=board.control_base,
        intc_base=board.interrupt_controller_base,
        interrupt=board.interrupt,
    )
