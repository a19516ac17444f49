# SPDX-License-Identifier: Apache-2.0
"""Farms: the file, the choice of a board, the reasons where there is none."""

import logging
import threading
from dataclasses import replace

import pytest
from helpers.remote_clients import TINY, right

from vdla.hardware.config import Config
from vdla.runtime.devices import open_device
from vdla.runtime.remote import farm
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.farm import read_farm
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import RemoteServer


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(farm, "STATUS_S", 0.5)
    monkeypatch.setattr(farm, "_SETTLE_S", 20)
    monkeypatch.setattr(farm.FarmBoard.status, "__defaults__", (0.5,))


@pytest.fixture
def write(tmp_path):
    def made(text):
        path = tmp_path / "farm.toml"
        path.write_text(text)
        return str(path)

    return made


def entries(**addresses):
    return "".join(f'[[board]]\nname = "{name}"\naddress = "{address}"\n' for name, address in addresses.items())


def serve(config=TINY, **limits):
    return RemoteServer("sim", config, "127.0.0.1:0", limits=Limits(**limits))


def test_work_goes_to_the_least_loaded_board_that_fits(write, caplog):
    with serve() as busy, serve() as free, serve(Config.preset("int4")) as misfit:
        path = write(entries(misfit=misfit.address, busy=busy.address, free=free.address, off="127.0.0.1:9"))
        caplog.set_level(logging.WARNING)
        with RemoteDevice(TINY, str(busy.address)), open_device(path, TINY) as device:
            assert device.name == str(free.address)
            assert right(device)
        other = Config.preset("int4")
        assert [record.getMessage() for record in caplog.records] == [
            f"device {path}: skipped board misfit: fingerprint must be {TINY.fingerprint}, "
            f"got {other.fingerprint} (int4)",
            f"device {path}: skipped board off: pynq://127.0.0.1:9: server must listen on port 9, "
            "got a refused connection; start it with vdla board serve --listen, or check the port",
        ]


def test_a_stopped_board_costs_nothing_once_another_has_answered(write, monkeypatch, caplog):
    """The stopped board answers when the test has ended."""
    ended, status = threading.Event(), farm.FarmBoard.status

    def slow(board):
        if board.name == "stopped":
            ended.wait(20)
        return status(board)

    monkeypatch.setattr(farm.FarmBoard, "status", slow)
    monkeypatch.setattr(farm, "_SETTLE_S", 0.01)
    with serve() as server:
        path = write(entries(stopped="127.0.0.1:9", free=server.address))
        with open_device(path, TINY) as device:
            assert device.name == str(server.address)
        assert not ended.is_set()
        ended.set()
    assert [record.getMessage() for record in caplog.records] == [
        f"device {path}: skipped board stopped: pynq://127.0.0.1:9: server must answer as soon as the others, "
        "got no answer yet"
    ]


def test_a_reserved_board_is_skipped(write, caplog):
    with serve() as reserved, serve() as free:
        path = write(entries(reserved=reserved.address, free=free.address))
        with RemoteDevice(TINY, str(reserved.address), reserve_s=600), open_device(path, TINY) as device:
            assert device.name == str(free.address)
    (record,) = caplog.records
    assert "skipped board reserved: board must not be reserved, got a reservation of " in record.getMessage()


def test_without_a_board_the_error_has_the_reason_of_each(write):
    with serve(sessions=1, memory_bytes=5000) as full, serve(memory_bytes=5000) as small:
        path = write(entries(full=full.address, small=small.address))
        with RemoteDevice(TINY, str(full.address)), pytest.raises(RemoteError) as error:
            open_device(path, TINY, memory_bytes=6000)
    assert str(error.value) == (
        f"device {path}: a board must be free and fit, got none of 2:\n"
        "  full: sessions must be below 1, got 1\n"
        "  small: free memory must be at least 6000 bytes, got 5000"
    )


def test_a_clock_of_its_own_does_not_matter(write):
    with serve(replace(TINY, clock_mhz=20)) as server, open_device(write(entries(a=server.address)), TINY) as device:
        assert right(device)


def test_paths_are_relative_to_the_file(write, tmp_path):
    path = write('[[board]]\naddress = "a:1"\ntls = "certificates"\ntoken_file = "/secret"\n')
    (board,) = read_farm(path)
    assert (board.name, board.address) == ("pynq://a:1", "pynq://a:1")
    assert (board.tls, str(board.token_file)) == (tmp_path / "certificates", "/secret")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "farm must be a list of [[board]] tables, got nothing"),
        ("[board]\naddress = 'a'", "farm must be a list of [[board]] tables, got board"),
        ("boards = []", "farm must be a list of [[board]] tables, got boards"),
        ("[[board]]\nname = 'a'", "board 0: address must be given, got name"),
        (
            "[[board]]\naddress = 'a'\nport = 1",
            "board 0: fields must be texts named name, address, tls, token_file, got port = 1",
        ),
        ("[[board]]\naddress = 'a'\n[[board]]\naddress = 'a'", "names of boards must differ, got pynq://a:7968 twice"),
    ],
)
def test_a_malformed_farm(write, text, error):
    path = write(text)
    with pytest.raises(RemoteError) as found:
        read_farm(path)
    assert str(found.value) == f"{path}: {error}"


def test_a_farm_that_cannot_be_read(write, tmp_path):
    with pytest.raises(RemoteError, match=r"absent.toml: no such file"):
        open_device(str(tmp_path / "absent.toml"), TINY)
    with pytest.raises(RemoteError, match=r"farm.toml: farm must be TOML, got "):
        read_farm(write("[[board"))
