# SPDX-License-Identifier: Apache-2.0
"""The server: a device of this machine for remote clients.

    with RemoteServer("sim", config, "127.0.0.1:7968") as server:
        server.wait()

Clients reach it over gRPC, or where that is not installed over HTTP/1.1, which needs nothing. It
listens when the constructor returns. Leaving the block ends all sessions and closes the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from vdla.hardware.config import Config
from vdla.runtime.devices import Device, open_device
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.calls import Listener, has_grpc
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import BoardStatus
from vdla.runtime.remote.service import RemoteService
from vdla.support.suggest import one_of

_TICK_S = 0.1
_STOP_S = 2.0
TRANSPORTS = {
    "grpc": ("vdla.runtime.remote.grpc_listener", "GrpcListener"),
    "http": ("vdla.runtime.remote.http_listener", "HttpListener"),
}
"""What carries the calls, by name: the module and the class that listens."""


class RemoteServer:
    """Serves one device; `device` is a name of `open_device`, or a function that opens one.

    `transport` is one of TRANSPORTS, by default the first that is installed.
    """

    def __init__(
        self,
        device: str | Callable[[], Device],
        config: Config,
        listen: str = "127.0.0.1:7968",
        *,
        options: Mapping[str, Any] | None = None,
        credentials: Credentials | None = None,
        limits: Limits | None = None,
        transport: str | None = None,
    ) -> None:
        listener = _listener_of(transport)
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
            self._listener = listener(self.service, address, self._credentials, limits)
        except BaseException:
            self.service.close()
            raise
        self.address = Address(address.host, self._listener.port)
        self._listener.start()
        self._ticker = threading.Thread(target=self._tick, name="watchdog", daemon=True)
        self._ticker.start()

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
        self._listener.stop(_STOP_S)
        self.service.close()

    def __enter__(self) -> RemoteServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def default_transport() -> str:
    """The transport of a server that is not told one."""
    return "grpc" if has_grpc() else "http"


def _listener_of(transport: str | None) -> Callable[..., Listener]:
    """The class that listens for a transport; each is imported at its first use."""
    name = default_transport() if transport is None else transport
    if name not in TRANSPORTS:
        raise RemoteError(f"server: transport must be {one_of(transport, TRANSPORTS)}")
    module, listener = TRANSPORTS[name]
    result: Callable[..., Listener] = getattr(import_module(module), listener)
    return result
