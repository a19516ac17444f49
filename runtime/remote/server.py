# SPDX-License-Identifier: Apache-2.0
"""The server: a device of this machine for remote clients, over gRPC.

    with RemoteServer("sim", config, "127.0.0.1:7968") as server:
        server.wait()

It listens when the constructor returns. Leaving the block ends all sessions and closes the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from vdla.hardware.config import Config
from vdla.runtime.devices import Device, open_device
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.credentials import CA, SERVER, SERVER_KEY, Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import SERVICE, BoardStatus
from vdla.runtime.remote.service import RemoteService

_TICK_S = 0.1
_STOP_S = 2.0
KEEPALIVE = (
    ("grpc.keepalive_time_ms", 10_000),  # finds clients whose machine is gone
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


class RemoteServer:
    """Serves one device; `device` is a name of `open_device`, or a function that opens one."""

    def __init__(
        self,
        device: str | Callable[[], Device],
        config: Config,
        listen: str = "127.0.0.1:7968",
        *,
        options: Mapping[str, Any] | None = None,
        credentials: Credentials | None = None,
        limits: Limits | None = None,
    ) -> None:
        address, self._credentials = Address.parse(listen), credentials or Credentials()
        self._credentials.require_safe_server(address)
        self._credentials.require_valid_server()
        limits = limits or Limits()
        given = dict(options or {})
        self.service = RemoteService(
            lambda: open_device(device, config, **given) if isinstance(device, str) else device(), limits
        )
        self._stopped = threading.Event()
        try:
            self._server = _grpc_server(self.service, self._credentials, limits)
            self.address = Address(address.host, self._bind(address))
        except BaseException:
            self.service.close()
            raise
        self._server.start()
        self._ticker = threading.Thread(target=self._tick, name="watchdog", daemon=True)
        self._ticker.start()

    def _bind(self, address: Address) -> int:
        tls = None if self._credentials.tls is None else _tls(self._credentials)
        try:
            if tls is None:
                port = self._server.add_insecure_port(address.target)
            else:
                port = self._server.add_secure_port(address.target, tls)
        except (RuntimeError, ValueError) as error:
            raise RemoteError(f"server: address must be free to listen on, got {address.target}: {error}") from None
        if not port:
            raise RemoteError(f"server: address must be free to listen on, got {address.target}")
        return int(port)

    def _tick(self) -> None:
        while not self._stopped.wait(_TICK_S):
            self.service.tick()

    def status(self) -> BoardStatus:
        """What `vdla board status` shows."""
        return self.service.status()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the server is closed; whether it was."""
        return self._stopped.wait(timeout_s)

    def close(self) -> None:
        """End all sessions and calls, and close the device."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.service.sessions.end_all()
        self._server.stop(_STOP_S).wait(2 * _STOP_S)
        self.service.close()

    def __enter__(self) -> RemoteServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _grpc_server(service: RemoteService, credentials: Credentials, limits: Limits) -> grpc.Server:
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
    handlers["Session"] = grpc.unary_stream_rpc_method_handler(service.session)
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
        return self._deny_stream if details.method.endswith("/Session") else self._deny


def _deny(frame: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "token must be that of the server, got another or none")
    return b""
