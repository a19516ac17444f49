# SPDX-License-Identifier: Apache-2.0
"""Boards with PYNQ.remote: why one does not answer, and its clock; without the package `pynq`."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from helpers.remote_clients import TINY

from vdla.benchmarks.board.connection_faults import failed_connections
from vdla.runtime.devices.pynq_messages import MissingPackageError
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.connection_cause import Cause, connection_fault
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.farm import board_address, open_farm
from vdla.runtime.remote.pynq_board import PYNQ_REMOTE, PynqBoard

NONE = Credentials()


def fault(address: Address, cause: Cause) -> str:
    """The sentence of a failed connection, which must have the cause."""
    error = connection_fault(address, NONE, 0.2, PYNQ_REMOTE)
    assert error.cause is cause
    return str(error)


@contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A port that accepts connections and never says anything."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        yield server


def test_a_board_without_the_server() -> None:
    with listening() as server:
        port = server.getsockname()[1]
    assert fault(Address("127.0.0.1", port), Cause.NO_SERVER) == (
        f"127.0.0.1:{port}: PYNQ.remote must listen on port {port}, got a refused connection; "
        "switch the board on, or restart the server of PYNQ.remote on it"
    )


def test_a_name_without_an_address() -> None:
    assert fault(Address("board.invalid", 7967), Cause.UNKNOWN_HOST) == (
        "board.invalid:7967: host must have an address, got none for board.invalid; check its name, or use its address"
    )


def test_a_server_of_the_other_family() -> None:
    with listening() as server:
        port = server.getsockname()[1]
        assert fault(Address("::1", port), Cause.ADDRESS_FAMILY) == (
            f"[::1]:{port}: PYNQ.remote must listen with IPv6, got one that listens at 127.0.0.1:{port} only; "
            f"use 127.0.0.1:{port}, or let it listen at [::1]:{port}"
        )


def test_a_server_that_is_stopped() -> None:
    with listening() as server:
        port = server.getsockname()[1]
        assert fault(Address("127.0.0.1", port), Cause.NO_ANSWER) == (
            f"127.0.0.1:{port}: PYNQ.remote must answer, got a connection but not a byte within 0.2 s; "
            "its process is stopped or overloaded: continue or restart it"
        )


def test_a_server_with_tls(tmp_path) -> None:
    with failed_connections(tmp_path) as connections:
        secure = Address.parse(connections[-1].address)
        assert fault(secure, Cause.ONE_SIDED_TLS) == (
            f"127.0.0.1:{secure.port}: PYNQ.remote must listen, which has no TLS, got a server with TLS; check the port"
        )


def test_without_pynq_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError) as error:
        PynqBoard(Address("127.0.0.1", 7967), 1.0)
    assert str(error.value) == 'board status: pynq must be installed, got none (pip install "vdla[board]")'


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.5", "pynq://10.0.0.5:7968"),
        ("10.0.0.5:7967", "10.0.0.5:7967"),
        ("[::1]:7967", "[::1]:7967"),
        ("pynq://10.0.0.5:7967", "pynq://10.0.0.5:7967"),
    ],
)
def test_the_port_of_pynq_names_pynq_unless_the_scheme_is_ours(text: str, address: str) -> None:
    assert board_address(text) == address


def test_a_farm_gives_no_work_to_a_board_without_a_queue(tmp_path) -> None:
    farm = tmp_path / "farm.toml"
    farm.write_text('[[board]]\nname = "left"\naddress = "10.0.0.5:7967"\n')
    with pytest.raises(RemoteError) as error:
        open_farm(TINY, str(farm))
    assert str(error.value) == (
        f"device {farm}: a board must be free and fit, got none of 1:\n  left: 10.0.0.5:7967: board must have a "
        "server with a queue, got PYNQ.remote; serve it from a computer: "
        "PYNQ_REMOTE_DEVICES=10.0.0.5 vdla board serve --listen HOST:PORT --device pynq"
    )
