# SPDX-License-Identifier: Apache-2.0
"""Which carrier a server speaks, asked of the server itself: one address for both kinds.

With TLS the handshake says it. Without, the first bytes do: a server of HTTP/1.1 answers a request
in kind, one of gRPC does not.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import closing
from importlib import import_module

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.calls import CHANNEL, CallFailed, Calls, has_grpc
from vdla.runtime.remote.connection_cause import connection_fault
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.http_channel import HttpChannel
from vdla.runtime.remote.messages import BoardStatus, StatusRequest, receive, send
from vdla.runtime.remote.tls_contexts import HTTP, client_context

_PROBE_S = 2.0
_PAUSE_S = 0.1
_QUESTION = b"HEAD / HTTP/1.1\r\nHost: vdla\r\nConnection: close\r\n\r\n"
_ANSWER = b"HTTP/1."


def open_calls(address: Address, credentials: Credentials, timeout_s: float) -> Calls:
    """The calls of a server that answers; RemoteError where none does within the time."""
    credentials.require_safe_client(address)
    end = time.monotonic() + timeout_s
    speaks_http = _speaks_http(address, credentials, end)
    calls: Calls
    if speaks_http:
        calls = HttpChannel(address, credentials)
    elif not has_grpc():
        raise RemoteError(f"{address}: server speaks gRPC: Python package grpcio must be installed, got none")
    else:
        calls = import_module(CHANNEL).Channel(address, credentials)
    try:
        calls.wait_ready(timeout_s)
    except BaseException:
        calls.close()
        raise
    return calls


def _speaks_http(address: Address, credentials: Credentials, end: float) -> bool:
    """Whether the server speaks HTTP/1.1; waits for one that does not listen yet."""
    while True:
        try:
            return _probe(address, credentials, max(0.1, min(_PROBE_S, end - time.monotonic())))
        except (TimeoutError, ssl.SSLError):  # it listens; its own carrier says what is wrong
            return not has_grpc()
        except OSError:
            fault = connection_fault(address, credentials)
            if not fault.cause.may_pass or time.monotonic() > end:
                raise fault from None
        time.sleep(_PAUSE_S)


def _probe(address: Address, credentials: Credentials, timeout_s: float) -> bool:
    with closing(socket.create_connection((address.host, address.port), timeout_s)) as connection:
        if credentials.tls is not None:
            context = client_context(credentials)
            with context.wrap_socket(connection, server_hostname=address.host) as wrapped:
                return wrapped.selected_alpn_protocol() == HTTP
        connection.sendall(_QUESTION)
        answer = b""
        while len(answer) < len(_ANSWER) and _ANSWER.startswith(answer):
            part = connection.recv(len(_ANSWER))
            if not part:
                break
            answer += part
        return answer.startswith(_ANSWER)


def board_status(address: str, credentials: Credentials | None = None, timeout_s: float = 5.0) -> BoardStatus:
    """What a server says of itself; RemoteError where none answers within the time."""
    where = Address.parse(address)
    calls = open_calls(where, credentials or Credentials(), timeout_s)
    try:
        return receive(BoardStatus, calls.function("Status")(send(StatusRequest()), timeout_s), str(where))[0]
    except CallFailed as error:
        raise error.explained(where) from None
    finally:
        calls.close()
