# SPDX-License-Identifier: Apache-2.0
"""Connections that never call keep nobody out: by number, by peer and by time."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from helpers.remote_clients import TINY, WAIT_S, right

from vdla.runtime.remote import http_listener
from vdla.runtime.remote.certificates import write_certificates
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.open_connections import OpenConnections
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import RemoteServer


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """A server's and a client's end of eight connections."""
    with contextlib.ExitStack() as stack:
        yield [tuple(map(stack.enter_context, socket.socketpair())) for _ in range(8)]


def ended(client: socket.socket) -> bool:
    """Whether the server has ended a connection."""
    client.settimeout(0)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_the_oldest_stranger_of_the_busiest_peer_gives_way(pairs) -> None:
    table = OpenConnections(4)
    for (server, _), peer in zip(pairs, "abb", strict=False):
        assert table.accept(server, peer)
    assert table.accept(pairs[3][0], "c")
    assert not any(ended(client) for _, client in pairs)
    assert table.accept(pairs[4][0], "d")
    assert [ended(client) for _, client in pairs] == [False, True, *[False] * 6]


def test_a_peer_has_half_of_the_places_for_strangers(pairs) -> None:
    table = OpenConnections(6)
    for server, _ in pairs[:5]:
        assert table.accept(server, "a")
    assert [ended(client) for _, client in pairs[:5]] == [True, True, False, False, False]


def test_connections_that_call_stay_whoever_comes(pairs) -> None:
    table = OpenConnections(2)
    for server, _ in pairs[:2]:
        assert table.accept(server, "a")
        table.know(server)
    assert not table.accept(pairs[2][0], "b")
    assert not any(ended(client) for _, client in pairs)
    table.remove(pairs[0][0])
    assert table.accept(pairs[2][0], "b")


def test_strangers_have_seconds_and_others_have_not(pairs) -> None:
    clock = Clock()
    table = OpenConnections(4, clock)
    (early, _), (calls, _), (late, _), (upper, _), *_ = pairs
    for server in (early, calls):
        table.accept(server, "a")
    table.know(calls)
    clock.now = 3.0
    table.accept(late, "a")
    table.replace(late, upper)  # TLS does not make it younger
    table.end_late(5.0)
    assert not any(ended(client) for _, client in pairs)
    clock.now = 6.0
    table.end_late(5.0)
    assert [ended(client) for _, client in pairs[:4]] == [True, False, False, False]
    clock.now = 9.0
    table.end_late(5.0)
    assert [ended(client) for _, client in pairs[:4]] == [True, False, False, True]


def test_a_connection_that_was_ended_during_its_handshake_stays_so(pairs) -> None:
    table = OpenConnections(1)
    (first, _), (second, _), (upper, client), *_ = pairs
    assert table.accept(first, "a") and table.accept(second, "a")
    table.replace(first, upper)
    assert ended(client)


def crowd(server: RemoteServer, count: int, stack: contextlib.ExitStack, sent: bytes = b"") -> list[socket.socket]:
    """Connections that send a part of a request, or nothing."""
    strangers = [
        stack.enter_context(socket.create_connection(("127.0.0.1", server.address.port), WAIT_S)) for _ in range(count)
    ]
    for one in strangers:
        with contextlib.suppress(OSError):  # one that the server has ended already
            one.sendall(sent)
    return strangers


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nX: "], ids=["silent", "half"])
def test_a_client_works_beside_more_strangers_than_there_are_places(sent: bytes) -> None:
    limits = Limits(sessions=1)
    server = RemoteServer("sim", TINY, "127.0.0.1:0", transport="http", limits=limits)
    with server, contextlib.ExitStack() as stack:
        crowd(server, 3 * limits.threads, stack, sent)
        with RemoteDevice(TINY, str(server.address)) as device:
            assert right(device)
            crowd(server, 3 * limits.threads, stack, sent)
            assert right(device)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_stranger_is_ended_without_a_call(tls: bool, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With TLS it does not even begin the handshake."""
    monkeypatch.setattr(http_listener, "FIRST_S", 0.0)
    credentials = Credentials()
    if tls:
        write_certificates(tmp_path, ["127.0.0.1"])
        credentials = Credentials.of(tls=tmp_path)
    server = RemoteServer("sim", TINY, "127.0.0.1:0", transport="http", credentials=credentials)
    with server, contextlib.ExitStack() as stack:
        (stranger,) = crowd(server, 1, stack)
        assert stranger.recv(1) == b""
