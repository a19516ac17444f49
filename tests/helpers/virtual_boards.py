# SPDX-License-Identifier: Apache-2.0
"""Virtual boards in processes of their own, and their bitstreams, for the unmodified pynq client.

The client finds its board by PYNQ_REMOTE_DEVICES, once a process, at a fixed port. So every board
of the tests has an address of its own in 127.0.0.0/8, and a process of tests uses one for its life.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from vdla.benchmarks.board.virtual_client import free_address
from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash

ROOT = Path(__file__).resolve().parents[2]
START_S = 60
_SERVER = """
import json
import sys
from dataclasses import replace

from vdla.boards.board import load_board
from vdla.boards.virtual.faults import parse_fault
from vdla.boards.virtual.virtual_board import VirtualBoard
from vdla.hardware.config import Config

name, config, fabric, address, *faults = sys.argv[1:]
board = load_board(name)
config = replace(Config.from_dict(json.loads(config)), clock_mhz=board.clock_mhz)
with VirtualBoard(board, config, fabric=fabric, address=address, faults=[parse_fault(fault) for fault in faults]):
    print("ready", flush=True)
    sys.stdin.read()  # until the test closes it, or ends
"""


def pynq_is_present() -> bool:
    """Whether the client is installed."""
    return find_spec("pynq") is not None


@contextlib.contextmanager
def virtual_board(config: Config, board: str = "pynq_z1", fabric: str = "sim", *faults: str) -> Iterator[str]:
    """The address of a running board."""
    address = free_address()
    command = [sys.executable, "-c", _SERVER, board, json.dumps(config.to_dict()), fabric, address, *faults]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as server:
        try:
            ready, _, _ = select.select([server.stdout], [], [], START_S)
            assert ready and server.stdout.readline() == "ready\n", "the virtual board has not started"
            yield address
        finally:
            server.stdin.close()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def write_bitstream(folder: Path, config: Config, board: str = "pynq_z1", build: str | None = None) -> Path:
    """CONFIG.bit and CONFIG.hwh in a folder; the path of the former."""
    from vdla.boards.bit_file import virtual_bit, write_bit
    from vdla.boards.board import load_board
    from vdla.boards.hwh import render_hwh

    description, build = load_board(board), build or build_hash(config)
    machine = replace(config, clock_mhz=description.clock_mhz)
    handoff = render_hwh(description, machine, build)
    path = folder / f"{config.name}.bit"
    path.with_suffix(".hwh").write_text(handoff, encoding="utf-8")
    write_bit(path, virtual_bit(description, machine, build, handoff))
    return path


def held_buffers() -> list[list[int]]:
    """What clients hold of the board that this process uses: number, address and bytes of each."""
    import pynq

    return json.loads(pynq.Device.active_device.read_file("/proc/vdla/buffers"))
