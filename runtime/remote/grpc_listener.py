# SPDX-License-Identifier: Apache-2.0
"""The server's side of gRPC."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.calls import DENIED, SESSION_CALL, not_free
from vdla.runtime.remote.credentials import CA, SERVER, SERVER_KEY, Credentials
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import SERVICE
from vdla.runtime.remote.service import RemoteService

KEEPALIVE = (
    ("grpc.keepalive_time_ms", 10_000),  # finds clients whose machine is gone
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


class GrpcListener:
    """Listens for gRPC; see `Listener`."""

    def __init__(self, service: RemoteService, address: Address, credentials: Credentials, limits: Limits) -> None:
        self._server = _server(service, credentials, limits)
        self.port = _bound(self._server, address, credentials)

    def start(self) -> None:
        """Answer calls."""
        self._server.start()

    def stop(self, timeout_s: float) -> None:
        """End all calls; those in progress have some seconds."""
        self._server.stop(timeout_s).wait(2 * timeout_s)


def _bound(server: grpc.Server, address: Address, credentials: Credentials) -> int:
    tls = None if credentials.tls is None else _tls(credentials)
    try:
        port = server.add_insecure_port(address.target) if tls is None else server.add_secure_port(address.target, tls)
    except (RuntimeError, ValueError) as error:
        raise not_free(address, error) from None
    if not port:
        raise not_free(address)
    return int(port)


def _server(service: RemoteService, credentials: Credentials, limits: Limits) -> grpc.Server:
    options = (
        ("grpc.so_reuseport", 0),  # a second server on the same port is an error
        ("grpc.max_receive_message_length", limits.frame_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        *KEEPALIVE,
    )
    server = grpc.server(
        ThreadPoolExecutor(limits.threads, thread_name_prefix="call"),
        options=options,
        interceptors=(_TokenCheck(credentials),),
        maximum_concurrent_rpcs=limits.threads,
    )
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(_without_context(call)) for name, call in service.calls.items()
    }
    handlers[SESSION_CALL] = grpc.unary_stream_rpc_method_handler(service.session)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    return server


def _without_context(call: Callable[[bytes], bytes]) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    return lambda frame, _: call(frame)


def _tls(credentials: Credentials) -> grpc.ServerCredentials:
    pair = (credentials.file(SERVER_KEY), credentials.file(SERVER))
    if credentials.needs_client_certificate:
        return grpc.ssl_server_credentials([pair], credentials.file(CA), require_client_auth=True)
    return grpc.ssl_server_credentials([pair])


class _TokenCheck(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets calls with the right token through."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._deny = grpc.unary_unary_rpc_method_handler(_deny)
        self._deny_stream = grpc.unary_stream_rpc_method_handler(_deny)

    def intercept_service(self, continuation: Any, details: Any) -> Any:  # noqa: ANN401  grpc has no types
        """The handler of a call, or one that refuses it."""
        given = [value for key, value in details.invocation_metadata or () if key == "authorization"]
        if self._credentials.allows(given[0] if len(given) == 1 else None):
            return continuation(details)
        return self._deny_stream if details.method.endswith(f"/{SESSION_CALL}") else self._deny


def _deny(frame: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, DENIED)
    return b""
