"""`vdla board serve`: a virtual board for clients of PYNQ.remote, until it is interrupted."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.board.serve_remote import add_remote_arguments, refuse_remote_options, serve_device
from vdla.commands.completion import complete_with
from vdla.commands.files import make_folder
from vdla.commands.machine_options import add_machine_arguments, machine, positive

if TYPE_CHECKING:
    from vdla.boards.board import Board
    from vdla.boards.virtual.virtual_board import VirtualBoard
    from vdla.hardware.config import Config

EXAMPLES = """\
  vdla board serve --preset pynq_z1 --overlay build/overlay
  vdla board serve --preset zcu104 --fabric rtl
  vdla board serve --listen 127.0.0.1:7968 --preset pynq_z1     for pynq:// clients
  vdla board serve --fault slow=5 --fault flipped-bit=1
  PYNQ_REMOTE_DEVICES=127.0.0.1 python client.py     in another terminal
"""

_PYNQ_PORT = 7967
_MEBIBYTE = 1 << 20
_MOST_MEMORY = 1024  # MiB


def fabric_names() -> list[str]:
    """The fabrics, for completion."""
    return ["sim", "rtl"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the board, the address, the faults."""
    add_machine_arguments(parser)
    parser.add_argument(
        "--board",
        metavar="BOARD",
        help="the board, by name or description (default: the one with the machine's preset)",
    )
    fabric = parser.add_argument(
        "--fabric", default="sim", metavar="NAME", help="what runs: sim, the simulator, or rtl, Verilator (default sim)"
    )
    complete_with(fabric, fabric_names)
    parser.add_argument(
        "--address", default="127.0.0.1", metavar="ADDRESS", help="a loopback address, or unix:PATH (default 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=int, default=_PYNQ_PORT, metavar="N", help=f"the port (default {_PYNQ_PORT}, that of pynq)"
    )
    parser.add_argument(
        "--memory", type=positive, default=128, metavar="MIB", help="MiB of contiguous memory (default 128)"
    )
    parser.add_argument("--overlay", type=Path, metavar="DIR", help="write the .bit and .hwh there, for the client")
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME[=VALUE]", help="a fault of the board; may be repeated"
    )
    add_remote_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    if arguments.listen is not None:
        return serve_device(arguments)
    refuse_remote_options(arguments)
    from vdla.boards.overlay_files import write_overlay
    from vdla.boards.virtual.messages import require_pynq

    require_pynq()
    config = machine(arguments)
    board = _board(arguments.board, config)
    served = _virtual_board(arguments, board, config)
    if arguments.overlay:
        make_folder(arguments.overlay)
        print(f"overlay: {write_overlay(board, config, arguments.overlay)}", flush=True)
    ended = Event()
    earlier = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with served:
            print(_greeting(served, arguments.fabric), flush=True)
            ended.wait()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, earlier)
    return OK


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
    )


def _board(name: str | None, config: Config) -> Board:
    """The board of that name, or the first that offers the configuration's preset."""
    from vdla.boards.board import board_names, load_board

    if name is not None:
        return load_board(name)
    boards = [load_board(name) for name in board_names()]
    named = {board.name: board for board in boards}
    offering = [board for board in boards if config.name in board.presets]
    if config.name not in named and not offering:
        raise CommandError(
            f"board serve: --board must be one of {', '.join(named)} for {config.name}, which none of them has as a "
            f"preset, got none"
        )
    return named.get(config.name) or offering[0]


def _greeting(served: VirtualBoard, fabric: str) -> str:
    """How a client connects."""
    what = f"virtual {served.board.title}, {served.config.name} on {fabric}, at {served.address}:{served.port}"
    if served.port == _PYNQ_PORT:
        return f"{what}; clients: PYNQ_REMOTE_DEVICES={served.address}"
    return f'{what}; clients: RemoteDevice(0, "{served.address}", port={served.port})'
