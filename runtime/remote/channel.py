# SPDX-License-Identifier: Apache-2.0
"""Calls to a server over gRPC."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from vdla.runtime.devices.board_link import call_failure
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.calls import SESSION_CALL, CallFailed
from vdla.runtime.remote.connection_cause import connection_fault
from vdla.runtime.remote.credentials import CA, CLIENT, CLIENT_KEY, Credentials
from vdla.runtime.remote.grpc_listener import KEEPALIVE
from vdla.runtime.remote.messages import SERVICE

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
_PERMANENT = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
)
"""Codes after which the same call cannot succeed."""


class Channel:
    """The calls of a server over gRPC; see `Calls`."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        credentials.require_safe_client(address)
        self.address, self._credentials = address, credentials
        self._metadata = (("authorization", credentials.authorization.decode()),) if credentials.token else ()
        if credentials.tls is None:
            self._channel = grpc.insecure_channel(address.target, _OPTIONS)
        else:
            self._channel = grpc.secure_channel(address.target, _tls(credentials), _OPTIONS)

    def function(self, name: str) -> Callable[[bytes, float], bytes]:
        """The call `name`, to be called with a frame and a timeout."""
        call = self._channel.unary_unary(f"/{SERVICE}/{name}")

        def answered(frame: bytes, timeout_s: float) -> bytes:
            try:
                return bytes(call(frame, timeout=timeout_s, metadata=self._metadata) or b"")  # None: it was cut off
            except grpc.RpcError as error:
                raise _failed(error) from None

        return answered

    def stream(self, frame: bytes) -> GrpcStream:
        """The call of a session."""
        return GrpcStream(self._channel.unary_stream(f"/{SERVICE}/{SESSION_CALL}")(frame, metadata=self._metadata))

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


class GrpcStream:
    """The answers of a session's call; see `AnswerStream`."""

    def __init__(self, call: Any) -> None:  # noqa: ANN401  gRPC has no types
        self._call = call

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return bytes(next(self._call))
        except grpc.RpcError as error:
            raise _failed(error) from None

    def cancel(self) -> None:
        """End the call."""
        self._call.cancel()


def _tls(credentials: Credentials) -> grpc.ChannelCredentials:
    authority = credentials.file(CA)
    if not credentials.has_client_certificate:
        return grpc.ssl_channel_credentials(authority)
    return grpc.ssl_channel_credentials(authority, credentials.file(CLIENT_KEY), credentials.file(CLIENT))


def _failed(error: grpc.RpcError) -> CallFailed:
    code, details = error.code(), error.details() or "no details"
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return CallFailed("", details, permanent=True)
    words = call_failure(code.name, details)
    return CallFailed(code.name.lower(), details, permanent=code in _PERMANENT, words=words)
