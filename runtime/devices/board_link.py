# SPDX-License-Identifier: Apache-2.0
"""The connection to a board: the errors of PYNQ and gRPC as DeviceError, and whether it is lost.

Each call of PYNQ.remote's client has a time limit, and a lost board is looked for again soon.
PYNQ's own has no limit, so that a board that stops answering would hang it, and gRPC waits for many
seconds before it connects again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from vdla.runtime.devices.device import DeviceError

_RECONNECT_S, _RECONNECT_PAUSE_S = 3.0, 0.1
_LOST = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL")
"""The gRPC codes after which the state of the server is not known."""


class BoardLink:
    """The connection of one device; `where` begins every message."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.lost: str | None = None  # the message of the call that found it lost

    @contextmanager
    def calls(self, what: str) -> Iterator[None]:
        """Calls to the board, to `what`: "read a register"; DeviceError where one fails."""
        if self.lost is not None:
            raise DeviceError(self.lost)
        try:
            yield
        except DeviceError:
            raise
        except Exception as error:
            raise DeviceError(self._message(what, error)) from error

    def release(self, what: str, give_back: Callable[[], object]) -> None:
        """Call `give_back`, which never raises; it is left out without a connection."""
        with suppress(DeviceError), self.calls(what):
            give_back()

    def reconnect(self, probe: Callable[[], object]) -> None:
        """Use the board again if it answers `probe` within seconds."""
        end = time.monotonic() + _RECONNECT_S
        while self.lost is not None:
            lost, self.lost = self.lost, None
            try:
                with self.calls("answer again"):
                    probe()
            except DeviceError:  # the first call may be what finds the connection closed
                self.lost = lost
                if time.monotonic() > end:
                    return
                time.sleep(_RECONNECT_PAUSE_S)

    def _message(self, what: str, error: Exception) -> str:
        code = _grpc_code(error)
        if code is None:
            return f"{self.where}: the board must {what}, got {type(error).__name__}: {one_line(error)}"
        if code not in _LOST:
            return f"{self.where}: the board must {what}, got {code}: {one_line(error)}"
        self.lost = (
            f"{self.where}: the connection to the board was lost at: {what} ({call_failure(code, one_line(error))}); "
            "close the device and open it again"
        )
        return self.lost


_IN_WORDS = {
    "CANCELLED": "the call was cut off, since the server was stopped or ended",
    "DEADLINE_EXCEEDED": "no answer in time, the server is stopped, overloaded or out of reach",
}


def call_failure(code: str, details: str) -> str:
    """Why a call of gRPC failed: in words, where its code and details say too little."""
    return _IN_WORDS.get(code, f"{code}: {details}")


def _grpc_code(error: Exception) -> str | None:
    """The name of the status of a gRPC error, None for others; gRPC itself is not imported."""
    code = getattr(error, "code", None)
    name = getattr(code(), "name", None) if callable(code) else None
    return name if isinstance(name, str) else None


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    details = getattr(error, "details", None)
    said = details() if callable(details) else str(error)
    return " ".join(str(said).split()) or type(error).__name__


_ANSWER_S = 3.0
_BACKOFF_MS = tuple((f"grpc.{which}_reconnect_backoff_ms", 200) for which in ("initial", "min", "max"))
_MARK = "_vdla_limited"


def limit_calls(device: Any, timeout_s: float) -> None:  # noqa: ANN401  of PYNQ
    """Give the calls of a remote device a deadline, once; any other device stays as it is."""
    stubs, address = getattr(device, "_stub", None), getattr(device, "ip_addr", None)
    if address is None or not isinstance(stubs, dict) or hasattr(device, _MARK):
        return
    import grpc

    channel = grpc.insecure_channel(f"{address}:{device.port}", _BACKOFF_MS)
    limited = grpc.intercept_channel(channel, _deadline(timeout_s))
    device._stub = {name: type(stub)(limited) for name, stub in stubs.items()}
    setattr(device, _MARK, channel)


def await_board(device: Any) -> None:  # noqa: ANN401  of PYNQ
    """Wait some seconds for a remote device that may come back; ConnectionError if it does not.

    A call would not do: the channel connects again only while something waits for it.
    """
    channel = getattr(device, _MARK, None)
    if channel is None:
        return
    import grpc

    try:
        grpc.channel_ready_future(channel).result(timeout=_ANSWER_S)
    except grpc.FutureTimeoutError:
        raise ConnectionError(f"no answer from {device.ip_addr}:{device.port} in {_ANSWER_S:g} s") from None


def _deadline(timeout_s: float) -> Any:  # noqa: ANN401  of gRPC
    """An interceptor that gives every call a deadline."""
    import grpc

    class Deadline(
        grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]  # gRPC has no types
        grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
        grpc.StreamUnaryClientInterceptor,  # type: ignore[misc]
    ):
        """Sets the deadline of a call that has none."""

        def intercept_unary_unary(self, call: Any, details: Any, request: Any) -> Any:  # noqa: ANN401
            """A request and a response."""
            return call(details._replace(timeout=timeout_s), request)

        def intercept_unary_stream(self, call: Any, details: Any, request: Any) -> Any:  # noqa: ANN401
            """A request and a stream of responses."""
            return call(details._replace(timeout=timeout_s), request)

        def intercept_stream_unary(self, call: Any, details: Any, requests: Any) -> Any:  # noqa: ANN401
            """A stream of requests and a response."""
            return call(details._replace(timeout=timeout_s), requests)

    return Deadline()
