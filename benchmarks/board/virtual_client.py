"""A function in a process whose PYNQ client uses a virtual board, with the board in another.

The client finds its board by the environment, once a process; forked processes hang in gRPC.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vdla.boards.board import boards_by_preset
from vdla.boards.overlay_files import write_overlay
from vdla.hardware.config import Config
from vdla.support.errors import Error

PYNQ_PORT = 7967  # the client connects to no other
_START_S = 300.0  # the RTL may have to be built
_STOP_S = 20.0


class VirtualClientError(Error, RuntimeError):
    """A virtual board or its client that failed, or that cannot be had here."""


def require_pynq() -> None:
    """VirtualClientError unless the package `pynq` is installed."""
    if find_spec("pynq") is None:
        raise VirtualClientError(
            'bench board: Python package pynq must be installed, got none; pip install "vdla[board]"'
        )


def on_virtual_board(
    preset: str, fabric: str, function: Callable[[str], dict[str, Any]], timeout_s: float = 1800.0
) -> dict[str, Any]:
    """What `function` returns in a client's process; it is given the path of the bitstream.

    `function` must be picklable.
    """
    require_pynq()
    config, board = Config.preset(preset), boards_by_preset()[preset]
    context = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as folder, served_board(preset, fabric) as address:
        bitstream = write_overlay(board, config, Path(folder))
        ours, theirs = context.Pipe()
        process = context.Process(target=_client, args=(function, str(bitstream), address, theirs), daemon=True)
        process.start()
        theirs.close()
        with _ended(process):
            if not ours.poll(timeout_s):
                raise VirtualClientError(f"bench board: client must answer within {timeout_s:g} s, got nothing")
            try:
                kind, value = ours.recv()
            except EOFError:
                raise VirtualClientError("bench board: client must answer, got the end of its process") from None
    if kind == "error":
        raise VirtualClientError(f"bench board: client must end without an error, got {value}")
    found: dict[str, Any] = value
    return found


@contextmanager
def served_board(preset: str, fabric: str) -> Iterator[str]:
    """The address of a virtual board with the machine of a preset, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    address = free_address()
    ours, theirs = context.Pipe()
    process = context.Process(target=_board, args=(preset, fabric, address, theirs), daemon=True)
    process.start()
    theirs.close()
    with _ended(process, ours):
        if not ours.poll(_START_S) or ours.recv() != "ready":
            raise VirtualClientError(f"bench board: virtual board must start within {_START_S:g} s, got nothing")
        yield address


@contextmanager
def _ended(process: BaseProcess, pipe: Connection | None = None) -> Iterator[None]:
    """End a process at the end of the block; the board's ends when its pipe does."""
    try:
        yield
    finally:
        if pipe is not None:
            pipe.close()
        process.join(_STOP_S)
        if process.is_alive():
            process.kill()
            process.join()


def free_address() -> str:
    """An address of the loopback at which nothing listens on the port of PYNQ.remote."""
    for _ in range(100):  # one that was not used before: gRPC avoids an address that has just failed
        address = ".".join(["127", *(str(1 + secrets.randbelow(250)) for _ in range(3))])
        with socket.socket() as probe:
            try:
                probe.bind((address, PYNQ_PORT))
            except OSError:
                continue
            return address
    raise VirtualClientError("bench board: an address of 127.0.0.0/8 must be free, got none in 100 tries")


def _board(preset: str, fabric: str, address: str, pipe: Connection) -> None:
    from vdla.boards.virtual.virtual_board import VirtualBoard

    board = boards_by_preset()[preset]
    config = replace(Config.preset(preset), clock_mhz=board.clock_mhz)
    with VirtualBoard(board, config, fabric=fabric, address=address):
        pipe.send("ready")
        pipe.poll(None)  # until the parent closes its end or dies


def _client(function: Callable[[str], dict[str, Any]], bitstream: str, address: str, pipe: Connection) -> None:
    os.environ["PYNQ_REMOTE_DEVICES"] = address  # before pynq is imported
    try:
        pipe.send(("figures", function(bitstream)))
    except Exception as error:
        pipe.send(("error", f"{type(error).__name__}: {error}"))
