# SPDX-License-Identifier: Apache-2.0
"""The server's side of HTTP/1.1, with the standard library alone: a board has no gRPC.

A call is POST /SERVICE/NAME with a frame as its body, and the answer's body is a frame. The answer
to a session's call is chunked and stays open: frames, each behind its length as a u32,
little-endian. A connection has a thread; the number of connections is limited as that of calls, and
`OpenConnections` keeps those that never call from taking all of them.
"""

from __future__ import annotations

import os
import select
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.calls import DENIED, SESSION_CALL, not_free
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import SERVICE
from vdla.runtime.remote.open_connections import OpenConnections, shut
from vdla.runtime.remote.service import RemoteService
from vdla.runtime.remote.tls_contexts import server_context

IDLE_S = 60.0
"""Seconds after which a connection without a request is closed, and a request that stalls."""
FIRST_S = 5.0
"""Seconds in which the first call of a connection must come, handshake included."""
LENGTH_BYTES = 4
_POLL_S = 0.1
_TEXT, _FRAME = "text/plain; charset=utf-8", "application/octet-stream"


class HttpListener:
    """Listens for HTTP/1.1; see `Listener`."""

    def __init__(self, service: RemoteService, address: Address, credentials: Credentials, limits: Limits) -> None:
        context = None if credentials.tls is None else server_context(credentials)
        try:
            family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
            self._server = _Server((address.host, address.port), family, context, limits.threads)
        except OSError as error:
            raise not_free(address, error.strerror) from None
        self._server.service, self._server.credentials = service, credentials
        self._server.frame_bytes, self._server.calls = limits.frame_bytes, service.calls
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        """Answer calls."""
        run = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="http", daemon=True)
        run.start()

    def stop(self, timeout_s: float) -> None:
        """End all calls; those in progress have some seconds."""
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections(timeout_s)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Accepts connections, and knows those that are open."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    service: RemoteService
    credentials: Credentials
    calls: dict[str, Callable[[bytes], bytes]]
    frame_bytes: int

    def __init__(
        self, address: tuple[str, int], family: socket.AddressFamily, context: ssl.SSLContext | None, most: int
    ) -> None:
        self.address_family = family
        self._context, self.connections = context, OpenConnections(most)
        self._changed = threading.Condition()
        self.busy = 0
        super().__init__(address, _Connection)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  of socketserver
        """Serve a connection in a thread; beyond the limit it is closed."""
        if self.connections.accept(request, client_address[0]):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Several times a second: end those that have not called in time."""
        self.connections.end_late(FIRST_S)

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  of socketserver
        """Serve a connection to its end, in its thread; the handshake is made here, too."""
        try:
            keep_alive(request)
            if self._context is None:
                _Connection(request, client_address, self)
                return
            request.settimeout(IDLE_S)
            # the handshake comes after `replace`, so that another thread can end it
            with self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as wrapped:
                self.connections.replace(request, wrapped)
                request = wrapped
                wrapped.do_handshake()
                _Connection(wrapped, client_address, self)
        finally:
            self.connections.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  of socketserver
        """A connection that breaks is no event: its client comes back or does not."""

    def count(self, change: int) -> None:
        """Count the calls in progress."""
        with self._changed:
            self.busy += change
            self._changed.notify_all()

    def end_connections(self, timeout_s: float) -> None:
        """Close all connections, after the calls in progress or the timeout."""
        end = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(lambda: not self.busy, timeout_s)
        self.connections.end_all(max(0.0, end - time.monotonic()))


class _Connection(BaseHTTPRequestHandler):
    """The requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave together
    server: _Server

    def do_GET(self) -> None:
        """Say what this is, to a client that asks what the server speaks, or to a browser; the
        connection ends, since it may be a stranger's.
        """
        self.close_connection = True
        if self.path == "/":
            self._answer(HTTPStatus.OK, b"a device of VDLA for pynq:// clients\n", _TEXT)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"no such page\n", _TEXT)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """A call."""
        name = self.path.removeprefix(f"/{SERVICE}/")
        if not self.server.credentials.allows(self._authorization()):
            self._refuse(HTTPStatus.UNAUTHORIZED, DENIED)
        elif name != SESSION_CALL and name not in self.server.calls:
            self._refuse(HTTPStatus.NOT_FOUND, "call must be one of this version, got another")
        else:
            self.server.connections.know(self.connection)
            frame = self._body()
            if frame is not None:
                self._call(name, frame)

    def _authorization(self) -> str | None:
        given = self.headers.get_all("authorization", [])
        return given[0] if len(given) == 1 else None

    def _body(self) -> bytes | None:
        """The frame of a request; None after one that must not be read was refused."""
        text = self.headers.get("content-length", "")
        if not (text.isascii() and text.isdigit()) or self.headers.get("transfer-encoding"):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "request must have a length")
            return None
        if len(text) > 12 or int(text) > self.server.frame_bytes:
            most = self.server.frame_bytes
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"frame must be at most {most} bytes, got {text}")
            return None
        frame = self.rfile.read(int(text))
        if len(frame) == int(text):
            return frame
        self.close_connection = True  # it was cut off
        return None

    def _call(self, name: str, frame: bytes) -> None:
        self.server.count(1)
        try:
            if name == SESSION_CALL:
                self._session(frame)
            else:
                self._answer(HTTPStatus.OK, self.server.calls[name](frame), _FRAME)
        finally:
            self.server.count(-1)

    def _session(self, frame: bytes) -> None:
        """Answer until the session or the connection ends."""
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _FRAME)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        watch = _ClientWatch(self.connection)
        try:
            for answer in self.server.service.session(frame, watch):
                part = len(answer).to_bytes(LENGTH_BYTES, "little") + answer
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        finally:
            shut(self.connection)  # the watch ends with it

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Refuse a request whose body was not read, and end the connection."""
        self.close_connection = True
        self._answer(status, text.encode(), _TEXT)

    def _answer(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged."""


class _ClientWatch:
    """Sees the end of a connection on which its client sends nothing more; see `CallContext`.

    Readiness of the socket below TLS is enough, so that no other thread uses the TLS state.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._lock, self._gone = threading.Lock(), False
        self._callbacks: list[Callable[[], None]] = []
        self._descriptor = os.dup(connection.fileno())  # the number of a closed one may be given again
        threading.Thread(target=self._wait, name="watch", daemon=True).start()

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
        poll.poll()
        os.close(self._descriptor)
        with self._lock:
            self._gone = True
        for callback in self._callbacks:
            callback()

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the client has gone; False if it has already."""
        with self._lock:
            if not self._gone:
                self._callbacks.append(callback)
            return not self._gone

    def is_active(self) -> bool:
        """Whether the client is still there."""
        return not self._gone


def keep_alive(connection: socket.socket) -> None:
    """Find the end of a peer whose machine is gone; TLS and HTTP would wait for ever."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
