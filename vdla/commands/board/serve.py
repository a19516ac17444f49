# SPDX-License-Identifier: Apache-2.0
"""`vdla board serve`: a virtual board for clients of PYNQ.remote, or a device for `pynq://`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.commands.files import make_folder
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.options import add_options, refuse
from vdla.commands.serving import add_credential_arguments, serve_device, serve_until_ended

if TYPE_CHECKING:
    from vdla.boards.board import Board
    from vdla.boards.virtual.virtual_board import VirtualBoard
    from vdla.hardware.config import Config


def add_remote_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to listen, for what device, who may come, how much they may take."""
    group = parser.add_argument_group("a device for pynq:// clients")
    add_options(
        group,
        {
            "--listen HOST:PORT": "serve a device of this machine at that address",
            "--device NAME": "the device to serve: sim (default), rtl or pynq",
            "--page HOST:PORT": "show who uses the device on a page there, to whom reaches it",
        },
    )
    add_credential_arguments(group)


def serve_device_of(arguments: argparse.Namespace) -> int:
    """Serve a device of this machine until Ctrl-C or SIGTERM."""
    return serve_device(arguments, arguments.device or "sim", machine(arguments), {})


EXAMPLES = """\
  vdla board serve --preset pynq_z1 --overlay build/overlay
  vdla board serve --preset zcu104 --fabric rtl
  vdla board serve --listen 127.0.0.1:7968 --preset pynq_z1     for pynq:// clients
  vdla board serve --fault slow=5 --fault flipped-bit=1
  PYNQ_REMOTE_DEVICES=127.0.0.1 python client.py     in another terminal
"""

_PYNQ_PORT = 7967
IMAGE_VERSIONS = "Python 3.10 and NumPy 1.21.5"
"""What PYNQ's images 3.0 and 3.1 have: the least that programs on a board may use."""
_MEBIBYTE = 1 << 20
_MOST_MEMORY = 1024  # MiB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the board, the address, the faults."""
    add_machine_arguments(parser)
    add_options(
        parser,
        {
            "--board BOARD": "the board, by name or description (default: the one with the machine's preset)",
            "--fabric NAME = sim": "what runs: sim, the simulator, or rtl, Verilator (default sim)",
            "--address ADDRESS = 127.0.0.1": "a loopback address, or unix:PATH (default 127.0.0.1)",
        },
    )
    parser.add_argument(
        "--port", type=int, default=_PYNQ_PORT, metavar="N", help=f"the port (default {_PYNQ_PORT}, the port of pynq)"
    )
    add_options(
        parser,
        {
            "--memory MIB = 128": "MiB of contiguous memory (default 128)",
            "--high-memory": "let the contiguous memory lie beyond 4 GiB, on boards with so much DRAM",
            "--overlay DIR": "write the .bit and .hwh for the client to DIR",
        },
    )
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME[=VALUE]", help="a fault of the board; may be repeated"
    )
    add_remote_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    if arguments.listen is not None:
        return serve_device_of(arguments)
    refuse("board serve", arguments, ("device", "tls", "token_file", "page", "limit"), "without --listen")
    from vdla.boards.overlay_files import write_overlay
    from vdla.runtime.devices.pynq_messages import require_pynq

    require_pynq("virtual board")
    config = machine(arguments)
    board = _board(arguments.board, config)
    served = _virtual_board(arguments, board, config)
    if arguments.overlay:
        make_folder(arguments.overlay)
        print(f"overlay: {write_overlay(board, config, arguments.overlay)}", flush=True)
    return serve_until_ended(served, lambda: _greeting(served, arguments.fabric))


def _virtual_board(arguments: argparse.Namespace, board: Board, config: Config) -> VirtualBoard:
    from vdla.boards.virtual.faults import parse_fault
    from vdla.boards.virtual.virtual_board import VirtualBoard

    if arguments.memory > _MOST_MEMORY:
        raise CommandError(f"board serve: --memory must be at most {_MOST_MEMORY} MiB, got {arguments.memory}")
    return VirtualBoard(
        board,
        config,
        fabric=arguments.fabric,
        faults=[parse_fault(text) for text in arguments.fault],
        address=arguments.address,
        port=arguments.port,
        memory_bytes=arguments.memory * _MEBIBYTE,
        high_memory=arguments.high_memory,
    )


def _board(name: str | None, config: Config) -> Board:
    """The board of that name, or the first that offers the configuration's preset."""
    from vdla.boards.board import board_names, load_board

    if name is not None:
        return load_board(name)
    boards = {name: load_board(name) for name in board_names()}
    offering = [board for board in boards.values() if config.name in board.machines]
    if config.name not in boards and not offering:
        raise CommandError(
            f"board serve: --board must be one of {', '.join(boards)} for {config.name}, which none of them has as a "
            f"preset, got none"
        )
    return boards.get(config.name) or offering[0]


def _greeting(served: VirtualBoard, fabric: str) -> str:
    """How a client connects."""
    what = (
        f"virtual {served.board.title}, {served.config.name} on {fabric}, at {served.address}:{served.port}, "
        f"as images with {IMAGE_VERSIONS}"
    )
    if served.port == _PYNQ_PORT:
        return f"{what}; clients: PYNQ_REMOTE_DEVICES={served.address}"
    return f'{what}; clients: RemoteDevice(0, "{served.address}", port={served.port})'
