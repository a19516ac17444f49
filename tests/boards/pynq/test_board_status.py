# SPDX-License-Identifier: Apache-2.0
"""`vdla board status` of boards that run PYNQ.remote: what it says, and that it changes nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.board_status import asked, printed
from helpers.virtual_boards import pynq_is_present, virtual_board, write_bitstream

if not pynq_is_present():
    pytest.skip("pynq is not installed (make test-board)", allow_module_level=True)

from helpers.sole_runs import TINY

from vdla.benchmarks.board.virtual_client import free_address
from vdla.cli import main
from vdla.commands.board import pynq_rows
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.board_watch import board_statuses
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.farm import FarmBoard
from vdla.runtime.remote.pynq_board import PORT, PynqBoard
from vdla.runtime.remote.pynq_status import PynqStatus
from vdla.runtime.remote.server import RemoteServer

UNKNOWN = PynqStatus(
    board="b",
    uptime_s=None,
    fabric=None,
    clock_mhz=None,
    memory_bytes=None,
    free_bytes=None,
    bitstream=None,
    clients=(),
)
"""A board that says nothing."""


# --- what it says ---------------------------------------------------------------------------------


def test_a_board_that_nobody_has_used(address, capsys):
    text = printed(capsys, address)
    for row in ("board PYNQ-Z1", "bitstream none of VDLA's noted", "clock unknown", "clients none of VDLA's noted"):
        assert f"\n{row}\n" in text
    assert "\ncontiguous memory 0.0 of 128 MiB in use\n" in text
    assert text.endswith(
        f"{address}: no client of VDLA: PYNQ_REMOTE_DEVICES={address} vdla board selftest --device pynq uses it"
    )


def test_a_proxy_that_keeps_the_client_away_is_named(monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    plain = pynq_rows.advice("10.0.0.5:7967", UNKNOWN)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert pynq_rows.advice("10.0.0.5:7967", UNKNOWN) == (
        f"{plain}; PYNQ's client connects through the proxy in http_proxy: name 10.0.0.5 in no_proxy"
    )
    monkeypatch.setenv("no_proxy", "localhost, 10.0.0.5")
    assert pynq_rows.advice("10.0.0.5:7967", UNKNOWN) == plain


def test_what_a_board_does_not_say_is_unknown():
    rows = dict(pynq_rows.pynq_rows(UNKNOWN))
    assert [rows[name] for name in ("up for", "fabric", "clock", "contiguous memory")] == ["unknown"] * 4


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59.9, "60 s"), (60, "1 min"), (7200, "2 h"), (9e5, "10 d")])
def test_durations(seconds, text):
    assert pynq_rows.duration(seconds) == text


# --- it changes nothing ---------------------------------------------------------------------------


_CLIENT = """
import sys

from helpers.sole_runs import TINY, outcome

from vdla.runtime.devices.pynq_device import PynqDevice

with PynqDevice(TINY, bitstream=sys.argv[1]) as device:
    print("open", flush=True)
    while sys.stdin.readline():
        print(outcome(device), flush=True)
"""


def test_runs_of_a_client_stay_right_meanwhile_and_a_killed_one_stays_in_the_note(address, tmp_path):
    root = Path(__file__).resolve().parents[3]
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": f"{root}:{root / 'tests'}"}
    command = [sys.executable, "-W", "ignore", "-c", _CLIENT, str(write_bitstream(tmp_path, TINY))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment | {"PYNQ_REMOTE_DEVICES": address}, **pipes) as client:
        assert client.stdout.readline() == "open\n"
        for _ in range(30):
            client.stdin.write("run\n")
            client.stdin.flush()
            assert f"process {client.pid}" in asked(address).clients[-1].client
            assert client.stdout.readline() == "right\n"
        client.kill()
    assert f"process {client.pid}" in asked(address).clients[-1].client


# --- several boards, farms, pages -----------------------------------------------------------------


def test_several_boards_at_once_in_json(address, capsys):
    with RemoteServer("sim", TINY, "127.0.0.1:0") as server:
        arguments = (f"{address}:7967", str(server.address), "127.0.0.1:1", "--json")
        assert main(["board", "status", *arguments]) == 1
    document = json.loads(capsys.readouterr().out)
    assert list(document) == [f"{address}:7967", str(server.address), "127.0.0.1:1"]
    assert document[f"{address}:7967"]["board"] == "PYNQ-Z1" and document[str(server.address)]["device"] == "sim"
    assert document["127.0.0.1:1"]["error"].startswith("pynq://127.0.0.1:1: server must listen on port 1")


def test_a_farm_with_boards_of_both_kinds(address, tmp_path, capsys):
    farm = tmp_path / "farm.toml"
    with RemoteServer("sim", TINY, "127.0.0.1:0") as server:
        farm.write_text(
            f'[[board]]\nname = "left"\naddress = "{server.address}"\n'
            f'[[board]]\nname = "right"\naddress = "{address}:7967"\n'
        )
        text = printed(capsys, str(farm))
    assert "\ndevice sim\n" in text and "\nboard PYNQ-Z1\n" in text and "\nright: " in text


def test_the_boards_of_the_environment_are_the_default(address, capsys, monkeypatch):
    monkeypatch.setenv("PYNQ_REMOTE_DEVICES", f" {address} ,")
    assert "\nboard PYNQ-Z1\n" in printed(capsys)


# --- boards that do not answer --------------------------------------------------------------------


def test_a_server_of_ours_at_the_port_is_another_service():
    with RemoteServer("sim", TINY, f"{free_address()}:7967") as server:
        address = server.address
        with pytest.raises(RemoteError) as error:
            asked(address.host)
    assert str(error.value) == (
        f"{address.host}:7967: port 7967 must be that of PYNQ.remote, got a service of another kind; check the port"
    )


def test_a_board_that_is_switched_off_meanwhile():
    with virtual_board(TINY) as address:
        boards = [FarmBoard("left", f"{address}:7967")]
        assert isinstance(board_statuses(boards)["left"], PynqStatus)
    assert str(board_statuses(boards)["left"]) == (
        f"{address}:7967: PYNQ.remote must listen on port 7967, got a refused connection; "
        "switch the board on, or restart the server of PYNQ.remote on it"
    )


def test_a_host_alone_was_looked_for_at_both_ports(capsys):
    host = free_address()
    assert printed(capsys, host, code=1).endswith(
        f"{host}: pynq://{host}:7968: server must listen on port 7968, got a refused connection; start it with vdla "
        "board serve --listen, or check the port; PYNQ.remote does not answer at port 7967 either"
    )


def test_a_board_that_is_stopped_is_not_waited_for_long():
    host = free_address()
    with socket.create_server((host, PORT)), pytest.raises(RemoteError) as error:
        PynqBoard(Address(host, PORT), 0.5).status()
    assert str(error.value).startswith(f"{host}:7967: PYNQ.remote must answer, got a connection but not a byte within")
