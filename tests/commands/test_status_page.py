# SPDX-License-Identifier: Apache-2.0
"""The page on boards: what it shows, and that it changes and reveals nothing."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse

import pytest

from vdla.commands import CommandError
from vdla.commands.board.status_page import Statuses, StatusPage, status_html
from vdla.commands.board.status_rows import status_rows
from vdla.hardware.config import Config
from vdla.runtime.devices import Device, DeviceError, open_device
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.open_calls import board_status
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import RemoteServer

TINY = Config.preset("tiny")
TOKEN = "0123456789abcdef"


@pytest.fixture
def server() -> Iterator[RemoteServer]:
    with RemoteServer("sim", TINY, "127.0.0.1:0", credentials=Credentials(token=TOKEN)) as server:
        yield server


def asked(page: StatusPage, method: str = "GET", path: str = "/") -> tuple[HTTPResponse, str]:
    connection = HTTPConnection(page.url.removeprefix("http://").rstrip("/"), timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def test_the_page_shows_the_board_and_who_holds_it_without_a_token(server: RemoteServer) -> None:
    def statuses() -> Statuses:
        return {"left": server.status(), "right": "pynq://10.0.0.5:7968: host must answer, got nothing"}

    with StatusPage(statuses, "127.0.0.1:0") as page:
        with RemoteDevice(TINY, str(server.address), token=TOKEN, reserve_s=60) as device:
            device.allocate(1 << 20)
            response, text = asked(page)
        assert response.status == 200 and response.headers["Refresh"] == "5"
        assert "<th>left</th>" in text and f"<td>{TINY.fingerprint}</td>" in text
        assert f"<td>{TINY.clock_mhz:g} MHz</td>" in text and "<td>0 waiting, 0 running</td>" in text
        assert "<td>1.0 MiB in 1 blocks</td>" in text and "<td>for 60 s</td>" in text
        assert "<td>pynq://10.0.0.5:7968: host must answer, got nothing</td>" in text
        assert TOKEN not in text and "<script" not in text
        assert "<p>none</p>" in asked(page)[1]  # the client has closed


def test_power_is_shown_where_a_board_has_sensors(server: RemoteServer) -> None:
    rails: dict[str, float] = {"INT": 1.5, "AUX": 0.25}

    def sensors() -> dict[str, float]:
        if not rails:
            raise DeviceError("device sim: the board must have power rails that PYNQ reads, got none")
        return rails

    def board() -> Device:
        device = open_device("sim", TINY)
        device.power = sensors  # type: ignore[attr-defined]
        return device

    assert ("power", "no sensors") in status_rows(server.status())
    with RemoteServer(board, TINY, "127.0.0.1:0") as measured:
        assert "<td>1.75 W (INT 1.50, AUX 0.25)</td>" in status_html({"left": board_status(str(measured.address))})
        rails.clear()
        assert ("power", "no sensors") in status_rows(board_status(str(measured.address)))


def test_nothing_else_is_answered(server: RemoteServer) -> None:
    with StatusPage(lambda: {"sim": server.status()}, "127.0.0.1:0") as page:
        assert asked(page, path="/etc/passwd")[0].status == 404
        assert asked(page, "POST")[0].status == 501


def test_what_a_client_says_is_text() -> None:
    assert "&lt;script&gt;" in status_html({"left": "<script>"}) and "<script>" not in status_html({"left": "<script>"})


def test_an_address_that_is_taken(server: RemoteServer) -> None:
    with pytest.raises(CommandError) as error:
        StatusPage(lambda: {}, f"127.0.0.1:{server.address.port}")
    assert str(error.value) == (
        f"--page: address must be free to listen on, got 127.0.0.1:{server.address.port}: Address already in use"
    )
