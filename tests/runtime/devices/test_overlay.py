# SPDX-License-Identifier: Apache-2.0
"""The bitstream of a device: where it is found, what is said of one that cannot be loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers.fake_pynq import FakeBoard

from vdla.hardware.config import Config
from vdla.runtime.devices import DeviceError, open_device, overlay
from vdla.runtime.devices.board_link import BoardLink
from vdla.runtime.devices.overlay import IP_VLNV, find_bitstream, load_overlay

TINY = Config.preset("tiny")
WHERE = "device pynq"


def message(function, *arguments, **options) -> str:
    with pytest.raises(DeviceError) as error:
        function(*arguments, **options)
    return str(error.value)


def pair(folder: Path, name: str = "tiny") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.hwh").touch()
    (folder / f"{name}.bit").touch()
    return folder / f"{name}.bit"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VDLA_OVERLAYS", raising=False)
    return tmp_path


@pytest.fixture
def board(monkeypatch):
    fake = FakeBoard(TINY)
    fake.install(monkeypatch)
    return fake


def test_the_bitstream_is_the_given_one_else_that_of_the_folder_else_of_the_current_one(here, monkeypatch):
    mine, near, far = pair(here / "a", "mine"), pair(here), pair(here / "b")
    assert find_bitstream(WHERE, TINY, str(mine)) == mine
    assert find_bitstream(WHERE, TINY, None) == near
    monkeypatch.setenv("VDLA_OVERLAYS", str(here / "b"))
    assert find_bitstream(WHERE, TINY, None) == far


def test_a_bitstream_that_is_not_there(here):
    assert message(find_bitstream, WHERE, TINY, None) == (
        "device pynq: bitstream must be given, or be tiny.bit in the folder $VDLA_OVERLAYS, the current one, "
        "or an installed package, got none; vdla board vivado builds it"
    )
    assert message(find_bitstream, WHERE, TINY, "x.bit") == "device pynq: bitstream must exist, got x.bit"
    assert message(find_bitstream, WHERE, TINY, "x.xsa") == "device pynq: bitstream must be a .bit file, got x.xsa"
    assert message(find_bitstream, WHERE, TINY, 5) == "device pynq: bitstream must be a path, got 5"


def test_a_lost_handoff_file_is_one_sentence(here):
    bitstream = pair(here)
    bitstream.with_suffix(".hwh").unlink()
    assert message(find_bitstream, WHERE, TINY, bitstream) == (
        f"device pynq: tiny.hwh must lie beside {bitstream}, got none; "
        "Vivado writes both: copy the .hwh file of the same build"
    )


def test_a_bitstream_without_the_accelerator(here, board):
    board.ip_type = "xilinx.com:ip:axi_dma:7.1"
    assert message(load_overlay, BoardLink(WHERE), pair(here)) == (
        f"device pynq: tiny.bit must have an IP of type {IP_VLNV}, got xilinx.com:ip:axi_dma:7.1"
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("No Devices Found"), "RuntimeError: No Devices Found; run on a board, or set PYNQ_REMOTE_DEVICES "
         "to the address of one before PYNQ is imported"),
        (OSError("Root permissions required."), "OSError: Root permissions required.; run as root (sudo -i)"),
        (TypeError("no frequency"), "TypeError: no frequency"),
    ],
)  # fmt: skip
def test_a_bitstream_that_cannot_be_loaded(here, board, error, text):
    def fail(call: str) -> None:
        if call.startswith("load"):
            raise error

    board.fails = fail
    found = message(load_overlay, BoardLink(WHERE), pair(here))
    assert found == f"device pynq: bitstream tiny.bit must load, got {text}"


def test_a_proxy_that_keeps_the_client_from_the_board_is_named(here, board, monkeypatch):
    def fail(call: str) -> None:
        if call.startswith("load"):
            raise RuntimeError("Failed to connect to remote device")

    board.fails = fail
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("grpc_proxy", raising=False)
    assert message(load_overlay, BoardLink(WHERE), pair(here)) == (
        "device pynq: bitstream tiny.bit must load, got RuntimeError: Failed to connect to remote device; "
        "gRPC connects through the proxy in http_proxy: name the board's address in no_proxy"
    )


def test_a_missing_package_is_named(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynq", None)
    pair(here)
    plain = "device pynq: Python package pynq must be installed, got none"
    assert message(open_device, "pynq", TINY) == plain
    environment = here / "pynq_venv.sh"
    environment.write_text("")
    monkeypatch.setattr(overlay, "ENVIRONMENT", environment)
    assert message(open_device, "pynq", TINY) == (
        f"{plain}; it is in an environment of its own: as root, in the same shell, . {environment}"
    )


def test_the_driver_is_bound_to_the_ip_that_is_packaged():
    from vdla.boards import ip

    assert IP_VLNV == ip.IP_VLNV


def test_an_interrupt_is_used_on_the_board_only(here, board):
    assert load_overlay(BoardLink(WHERE), pair(here)).interrupt is None  # the fake has none
    loaded = load_overlay(BoardLink(WHERE), pair(here))
    assert (loaded.remote, loaded.coherent, loaded.parameters) == (False, False, {"COHERENT": "0"})
