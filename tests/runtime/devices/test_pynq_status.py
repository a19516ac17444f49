# SPDX-License-Identifier: Apache-2.0
"""The state of boards with PYNQ.remote while devices are open: who has one, and that asking changes
nothing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from helpers.board_status import asked, printed
from helpers.sole_runs import OURS, PROGRAM, TINY, outcome
from helpers.virtual_boards import pynq_is_present, write_bitstream

from vdla.benchmarks.board.virtual_client import free_address
from vdla.boards.board import load_board
from vdla.commands.board import pynq_rows
from vdla.commands.board.status_page import status_html
from vdla.hardware.generate.registers import OFFSETS
from vdla.runtime.devices.board_driver import TakenError
from vdla.runtime.devices.pynq_device import PynqDevice
from vdla.runtime.devices.run import run
from vdla.runtime.remote.board_watch import board_statuses
from vdla.runtime.remote.farm import FarmBoard

if not pynq_is_present():
    pytest.skip("pynq is not installed (make test-board)", allow_module_level=True)
from vdla.boards.virtual.virtual_board import VirtualBoard

_READS = {
    "/remote_device.RemoteDevice/existsfile",
    "/remote_device.RemoteDevice/readfile",
}


class RecordedBoard(VirtualBoard):
    """A board that notes the calls of its clients, and their accesses to the fabric."""

    def __init__(self, address: str) -> None:
        self.calls: list[str] = []
        self.accesses = 0
        self.interferes = False  # as if another client wrote a register before the next start
        super().__init__(load_board("pynq_z1"), TINY, address=address)

    def arrive(self, method: str) -> bool:
        self.calls.append(method)
        return super().arrive(method)

    def read_word(self, offset: int) -> int:
        self.accesses += 1
        return super().read_word(offset)

    def write_word(self, offset: int, value: int) -> None:
        self.accesses += 1
        if self.interferes and offset == OFFSETS["CONTROL"]:
            super().write_word(OFFSETS["STREAM_LO"], 0x16800000)
        super().write_word(offset, value)


@pytest.fixture
def recorded(pynq_board):
    with RecordedBoard(free_address()) as board:
        yield board


@contextlib.contextmanager
def opened(address: str, folder: Path):
    """A device of this process on the board at an address."""
    from pynq.pl_server.remote_device import RemoteDevice

    with PynqDevice(TINY, bitstream=write_bitstream(folder, TINY), target=RemoteDevice(3, address)) as device:
        yield device


def test_a_client_shows_with_bitstream_and_memory_until_it_closes(recorded, tmp_path, capsys):
    with opened(recorded.address, tmp_path) as device:
        device.allocate(1 << 20)
        assert outcome(device) == "right"
        status = asked(recorded.address)
        text = printed(capsys, f"{recorded.address}:7967")
    (client,) = status.clients
    assert status.fabric == "operating" and status.bitstream is not None
    assert status.clock_mhz == device.config.clock_mhz == 100.0  # what PYNQ reads, not that of tiny
    assert status.bitstream.file == client.file and client.file.startswith("tiny-")
    assert recorded.files.exists(f"/lib/firmware/{client.file}")
    assert (status.bitstream.fingerprint, client.machine) == (TINY.fingerprint, "tiny")
    assert 0 <= client.seen_s <= client.since_s <= (status.uptime_s or 0)
    assert client.memory_bytes >= 1 << 20 and status.memory_bytes - status.free_bytes >= 1 << 20
    share = f"PYNQ_REMOTE_DEVICES={recorded.address} vdla board serve --listen HOST:PORT --device pynq"
    assert text.endswith(f"in use by {client.client}: wait, or share one server: {share}")
    assert f"{client.client} tiny 1.0 MiB" in text
    after = asked(recorded.address)
    assert after.clients == () and after.bitstream is not None and after.free_bytes == after.memory_bytes


def test_two_clients_are_told_to_share_and_silent_ones_may_be_killed(recorded, tmp_path, monkeypatch):
    with opened(recorded.address, tmp_path) as ours, opened(recorded.address, tmp_path):
        assert outcome(ours) == "right"
        status = asked(recorded.address)
        names = " and ".join(client.client for client in status.clients)
        assert len(status.clients) == 2
        assert pynq_rows.advice("b:7967", status).startswith(f"{names} disturb each other; let them share one server: ")
        monkeypatch.setattr(pynq_rows, "_SILENT_S", 0.0)
        ago = pynq_rows.duration(status.clients[-1].seen_s)
        assert pynq_rows.advice("b:7967", status) == (
            f"{names} may have been killed, since there was no run for {ago}: "
            "ask, and restart the server of PYNQ.remote on the board if so, which frees the memory"
        )


def test_it_only_reads_and_leaves_the_fabric_alone(recorded, tmp_path):
    with opened(recorded.address, tmp_path):
        recorded.calls.clear()
        accesses, buffers = recorded.accesses, len(recorded.memory.buffers)
        asked(recorded.address)
        assert set(recorded.calls) == _READS
        assert (recorded.accesses, len(recorded.memory.buffers)) == (accesses, buffers)


def test_the_page_shows_them(recorded, tmp_path):
    board = FarmBoard("left", f"{recorded.address}:7967")
    with opened(recorded.address, tmp_path):
        page = status_html(board_statuses([board]))
    assert "<td>PYNQ-Z1</td>" in page and "<h2>Boards with PYNQ.remote</h2>" in page
    assert "<td>tiny</td>" in page and f"<td>{TINY.fingerprint}</td>" in page


def test_a_run_that_was_not_alone_names_the_other_client(recorded, tmp_path):
    with opened(recorded.address, tmp_path) as ours, opened(recorded.address, tmp_path):
        (name,) = {client.client for client in asked(recorded.address).clients}  # of one process, both
        recorded.interferes = True
        with pytest.raises(TakenError) as error:
            run(PROGRAM, OURS, ours)
    assert f"end the other client (open on the board: {name}), or let all of them use one vdla board" in str(
        error.value
    )
