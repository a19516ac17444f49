# SPDX-License-Identifier: Apache-2.0
"""A function in a process whose PYNQ client uses a virtual board, with the board in another.

The client finds its board by the environment, once a process.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from vdla.benchmarks.board.child_process import child_process
from vdla.benchmarks.harness import Row
from vdla.boards.board import boards_by_preset
from vdla.boards.overlay_files import write_overlay
from vdla.hardware.config import Config
from vdla.support.errors import Error

PYNQ_PORT = 7967  # the client connects to no other
_START_S = 300.0  # the RTL may have to be built


class VirtualClientError(Error, RuntimeError):
    """A virtual board or its client that failed, or that cannot be had here."""


def require_pynq() -> None:
    """VirtualClientError unless the package `pynq` is installed."""
    if find_spec("pynq") is None:
        raise VirtualClientError(
            'bench board: Python package pynq must be installed, got none; pip install "vdla[board]"'
        )


def on_virtual_board(preset: str, fabric: str, function: Callable[[str], Row], timeout_s: float = 1800.0) -> Row:
    """What `function` returns in a client's process; it is given the path of the bitstream.

    `function` must be picklable.
    """
    require_pynq()
    config, board = Config.preset(preset), boards_by_preset()[preset]
    with TemporaryDirectory() as folder, served_board(preset, fabric) as address:
        bitstream = write_overlay(board, config, Path(folder))
        with child_process(_client, function, str(bitstream), address) as (_, pipe):
            if not pipe.poll(timeout_s):
                raise VirtualClientError(f"bench board: client must answer within {timeout_s:g} s, got nothing")
            try:
                kind, value = pipe.recv()
            except EOFError:
                raise VirtualClientError("bench board: client must answer, got the end of its process") from None
    if kind == "error":
        raise VirtualClientError(f"bench board: client must end without an error, got {value}")
    result: Row = value
    return result


@contextmanager
def served_board(preset: str, fabric: str) -> Iterator[str]:
    """The address of a virtual board with the machine of a preset, in a process of its own."""
    address = free_address()
    with child_process(_board, preset, fabric, address) as (_, pipe):
        if not pipe.poll(_START_S) or pipe.recv() != "ready":
            raise VirtualClientError(f"bench board: virtual board must start within {_START_S:g} s, got nothing")
        yield address


def free_address() -> str:
    """An address of the loopback at which nothing listens on the port of PYNQ.remote."""
    for _ in range(100):  # never used before: gRPC avoids an address that has just failed
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


def client_environment(address: str) -> None:
    """Let PYNQ, which this process has not imported yet, use the board at an address."""
    os.environ["PYNQ_REMOTE_DEVICES"] = address


def _client(function: Callable[[str], Row], bitstream: str, address: str, pipe: Connection) -> None:
    client_environment(address)
    try:
        pipe.send(("figures", function(bitstream)))
    except Exception as error:
        pipe.send(("error", f"{type(error).__name__}: {error}"))


# --- device tests ---------------------------------------------------------------------------------
# The device tests through the unmodified client of PYNQ, on a virtual board with the RTL.
#
# They are the tests of the repository, run by pytest in a process of its own.


TESTS = Path(__file__).resolve().parents[2] / "tests" / "runtime" / "devices" / "test_device.py"
FABRIC = "VDLA_TEST_FABRIC"
"""The variable that chooses what is behind the virtual board of the tests."""

_TIMEOUT_S = 1800
_COUNTS = ("tests", "skipped", "failures", "errors")
_CHOICE = "pynq and not ://"


def device_tests(fabric: str = "rtl") -> dict[str, int]:
    """`device_tests` that ran, and `device_tests_failed`."""
    require_pynq()
    if not TESTS.is_file() or find_spec("pytest") is None:
        raise VirtualClientError("bench board: the tests of the repository and pytest must be here, got neither or one")
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-k", _CHOICE, f"--junitxml={report}", str(TESTS)]
        done = subprocess.run(
            command,
            cwd=TESTS.parents[3],
            env={**os.environ, FABRIC: fabric},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if not report.exists():
            raise VirtualClientError(f"bench board: pytest must write a report, got exit code {done.returncode}")
        suite = ElementTree.parse(report).getroot()
    counts = {name: sum(int(item.get(name, 0)) for item in suite.iter("testsuite")) for name in _COUNTS}
    ran = counts["tests"] - counts["skipped"]
    if not ran:
        raise VirtualClientError("bench board: device tests must run, got none")
    return {"device_tests": ran, "device_tests_failed": counts["failures"] + counts["errors"]}
