# SPDX-License-Identifier: Apache-2.0
"""A gRPC channel to a server, and its calls as functions from frame to frame."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import grpc

from vdla.runtime.devices.board_link import call_failure
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.connection_cause import connection_fault
from vdla.runtime.remote.credentials import CA, CLIENT, CLIENT_KEY, Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.messages import SERVICE, BoardStatus, StatusRequest, receive, send
from vdla.runtime.remote.server import KEEPALIVE

_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # a proxy for the web does not lead to a board, nor to loopback
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),  # clients of one process do not share a connection
    *KEEPALIVE,
)
_LOOK_S = 1.0
"""Seconds without a connection after which its cause is looked for."""
PERMANENT = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
)
"""Codes after which the same call cannot succeed."""


class Channel:
    """The calls of a server; every one may raise `grpc.RpcError`."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        credentials.require_safe_client(address)
        self.address, self._credentials = address, credentials
        self._metadata = (("authorization", credentials.authorization.decode()),) if credentials.token else ()
        if credentials.tls is None:
            self._channel = grpc.insecure_channel(address.target, _OPTIONS)
        else:
            self._channel = grpc.secure_channel(address.target, _tls(credentials), _OPTIONS)

    def function(self, name: str) -> Callable[..., bytes]:
        """The call `name`, to be called with a frame and a timeout."""
        call = self._channel.unary_unary(f"/{SERVICE}/{name}")
        return lambda frame, timeout_s: call(frame, timeout=timeout_s, metadata=self._metadata)

    def stream(self, frame: bytes) -> Any:  # noqa: ANN401  an iterator of frames that can be cancelled
        """The call of a session."""
        return self._channel.unary_stream(f"/{SERVICE}/Session")(frame, metadata=self._metadata)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait for a connection; ConnectionFault where none stands within the time, or none ever
        will.
        """
        ready = grpc.channel_ready_future(self._channel)
        end = time.monotonic() + timeout_s
        while True:
            try:
                ready.result(min(_LOOK_S, max(0.0, end - time.monotonic())))
                return
            except grpc.FutureTimeoutError:
                fault = connection_fault(self.address, self._credentials)
                if not fault.cause.may_pass or time.monotonic() >= end:
                    raise fault from None

    def close(self) -> None:
        """End all calls and the connection."""
        self._channel.close()


def _tls(credentials: Credentials) -> grpc.ChannelCredentials:
    authority = credentials.file(CA)
    if not credentials.has_client_certificate:
        return grpc.ssl_channel_credentials(authority)
    return grpc.ssl_channel_credentials(authority, credentials.file(CLIENT_KEY), credentials.file(CLIENT))


def explained(address: Address, error: grpc.RpcError) -> RemoteError:
    """A failed call as an error of VDLA."""
    code, details = error.code(), error.details() or "no details"
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return RemoteError(f"{address}: {details}")
    return RemoteError(f"{address}: server must answer, got {call_failure(code.name, details)}")


def board_status(address: str, credentials: Credentials | None = None, timeout_s: float = 5.0) -> BoardStatus:
    """What a server says of itself; RemoteError where none answers within the time."""
    channel = Channel(Address.parse(address), credentials or Credentials())
    try:
        channel.wait_ready(timeout_s)
        frame = channel.function("Status")(send(StatusRequest()), timeout_s)
        return receive(BoardStatus, frame, str(channel.address))[0]
    except grpc.RpcError as error:
        raise explained(channel.address, error) from None
    finally:
        channel.close()
