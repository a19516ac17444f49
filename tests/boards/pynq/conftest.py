# SPDX-License-Identifier: Apache-2.0
"""Virtual boards for the unmodified client of PYNQ; the tests need `pynq` (make test-board)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from helpers.virtual_boards import pynq_is_present, virtual_board

from vdla.hardware.config import Config

ROOT = Path(__file__).resolve().parents[3]
CLIENT_S = 60


@pytest.fixture
def served():
    """`served("slow=5", fabric="rtl")` is the address of a board with the machine `tiny`."""
    with contextlib.ExitStack() as stack:

        def start(*faults: str, board: str = "pynq_z1", config: Config | None = None, fabric: str = "sim") -> str:
            return stack.enter_context(virtual_board(config or Config.preset("tiny"), board, fabric, *faults))

        yield start


@pytest.fixture(scope="module")
def address():
    """A board without faults."""
    if not pynq_is_present():
        pytest.skip("pynq is not installed (make test-board)")
    with virtual_board(Config.preset("tiny")) as found:
        yield found


@pytest.fixture
def client(tmp_path):
    """`client(address, "lines of Python")` is what a process prints that has one board."""

    def run(address: str, source: str) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PYNQ_REMOTE_DEVICES": address}
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=CLIENT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
