# SPDX-License-Identifier: Apache-2.0
"""Calls to a server over HTTP/1.1, with the standard library alone; see `http_listener`."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.calls import SESSION_CALL, CallFailed
from vdla.runtime.remote.connection_cause import connection_fault
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.http_listener import IDLE_S, LENGTH_BYTES, keep_alive
from vdla.runtime.remote.messages import SERVICE
from vdla.runtime.remote.open_connections import shut
from vdla.runtime.remote.tls_contexts import client_context

_BROKEN = (OSError, ValueError, http.client.HTTPException)  # what a connection that ends raises
_CONNECT_S = 5.0
_PERMANENT = (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
_PAUSE_S = 0.1


class HttpChannel:
    """The calls of a server over HTTP/1.1; see `Calls`. Idle connections are used again."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        credentials.require_safe_client(address)
        self.address, self._credentials = address, credentials
        self._headers = {"authorization": credentials.authorization.decode()} if credentials.token else {}
        self._context = None if credentials.tls is None else client_context(credentials)
        self._lock, self._closed = threading.Lock(), False
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._busy: set[http.client.HTTPConnection] = set()

    # --- connections

    def _begin(self, timeout_s: float) -> http.client.HTTPConnection:
        """An open connection, which the caller ends or gives back."""
        with self._lock:
            if self._closed:
                raise CallFailed("cancelled", "the client was closed")
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < IDLE_S / 2:  # the server may have closed an older one
                    self._busy.add(connection)
                    if connection.sock is not None:
                        connection.sock.settimeout(timeout_s)
                    return connection
                connection.close()
        return self._connected(timeout_s)

    def _connected(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        limit_s = min(timeout_s, _CONNECT_S)
        if self._context is None:
            connection = http.client.HTTPConnection(host, port, timeout=limit_s)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=limit_s, context=self._context)
        try:
            connection.connect()
        except ssl.SSLError:
            raise
        except OSError as error:
            raise CallFailed("unavailable", str(error)) from None
        connection.sock.settimeout(timeout_s)
        keep_alive(connection.sock)
        with self._lock:
            self._busy.add(connection)
        return connection

    def _end(self, connection: http.client.HTTPConnection, *, reusable: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if reusable and not self._closed and connection.sock is not None:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    # --- calls

    def function(self, name: str) -> Callable[[bytes, float], bytes]:
        """The call `name`, a function of a frame and a timeout in seconds."""
        return lambda frame, timeout_s: self._request("POST", f"/{SERVICE}/{name}", frame, timeout_s)

    def _request(self, method: str, path: str, body: bytes | None, timeout_s: float) -> bytes:
        try:
            connection = self._begin(timeout_s)
        except _BROKEN as error:
            raise _lost(error) from None
        whole = False
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            content = response.read()
            whole = response.status == HTTPStatus.OK and not response.will_close
        except _BROKEN as error:
            raise _lost(error) from None
        finally:
            self._end(connection, reusable=whole)
        _require_ok(response, content)
        return content

    def stream(self, frame: bytes) -> HttpStream:
        """The call of a session."""
        try:
            connection = self._begin(_CONNECT_S)
            connection.request("POST", f"/{SERVICE}/{SESSION_CALL}", frame, self._headers)
        except _BROKEN as error:
            raise _lost(error) from None
        return HttpStream(connection, lambda: self._end(connection, reusable=False))

    def wait_ready(self, timeout_s: float) -> None:
        """RemoteError unless the server answers within the time."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                self._request("GET", "/", None, max(0.1, end - time.monotonic()))
                return
            except CallFailed as error:
                if time.monotonic() > end or error.permanent:
                    raise connection_fault(self.address, self._credentials) from None
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """End all calls and connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for connection in self._busy:
                if connection.sock is not None:
                    shut(connection.sock)
        for _, connection in idle:
            connection.close()


class HttpStream:
    """The answers of a session's call; see `AnswerStream`. Whoever reads closes the connection."""

    def __init__(self, connection: http.client.HTTPConnection, ended: Callable[[], None]) -> None:
        self._connection, self._ended = connection, ended
        self._response: http.client.HTTPResponse | None = None
        self._socket = connection.sock  # the response of a connection that closes takes it over
        self._reading = threading.Lock()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._reading:
            try:
                return self._read()
            except _BROKEN as error:
                self._close()
                raise _lost(error) from None
            except (StopIteration, CallFailed):
                self._close()
                raise

    def _read(self) -> bytes:
        response = self._answered()
        length = response.read(LENGTH_BYTES)
        if not length:
            raise StopIteration
        return response.read(int.from_bytes(length, "little"))

    def _answered(self) -> http.client.HTTPResponse:
        """The response, after its status."""
        if self._response is None:
            self._response = self._connection.getresponse()
            if self._response.status != HTTPStatus.OK:
                _require_ok(self._response, self._response.read())
            self._socket.settimeout(None)  # frames come when the session ends
        return self._response

    def cancel(self) -> None:
        """End the call, from any thread."""
        shut(self._socket)
        if self._reading.acquire(blocking=False):
            self._close()
            self._reading.release()

    def _close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._ended()


def _require_ok(response: http.client.HTTPResponse, content: bytes) -> None:
    if response.status == HTTPStatus.OK:
        return
    text = content[:200].decode("utf-8", "replace").strip()
    code = "" if response.status == HTTPStatus.UNAUTHORIZED else f"HTTP status {response.status}"
    raise CallFailed(code, text, permanent=response.status in _PERMANENT)


def _lost(error: Exception) -> CallFailed:
    """The failure of a broken connection; credentials that do not fit stay so."""
    text = " ".join(str(error).split()) or type(error).__name__
    code = "deadline_exceeded" if isinstance(error, socket.timeout) else "unavailable"
    return CallFailed(code, text, permanent=isinstance(error, ssl.SSLCertVerificationError))
