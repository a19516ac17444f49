# SPDX-License-Identifier: Apache-2.0
"""What surrounds every request: faults that delay or drop it, and errors that become answers.

The client reads `msg` of some answers and raises it; for all other methods the call is aborted. No
exception of a service reaches gRPC.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any, NoReturn, Protocol

import grpc

from vdla.runtime.devices.pynq_messages import Message, messages
from vdla.support.errors import Error

_MESSAGES = {
    "/mmio.Mmio/get_mmio": ("mmio", "GetMmioResponse"),
    "/mmio.Mmio/read": ("mmio", "ReadResponse"),
    "/mmio.Mmio/write": ("mmio", "WriteResponse"),
    "/buffer.RemoteBuffer/write": ("buffer", "BufferWriteResponse"),
    "/buffer.RemoteBuffer/flush": ("buffer", "FlushResponse"),
    "/buffer.RemoteBuffer/invalidate": ("buffer", "InvalidateResponse"),
    "/buffer.RemoteBuffer/freebuffer": ("buffer", "FreeBufferResponse"),
    "/buffer.RemoteBuffer/physical_address": ("buffer", "AddressResponse"),
    "/buffer.RemoteBuffer/virtual_address": ("buffer", "AddressResponse"),
}
_STREAM_TIMEOUT_S = 120.0  # of a stream from a client, which holds a worker
_log = logging.getLogger("vdla.boards.virtual")

Unary = Callable[[Message], Message]
Answers = Callable[[Message], Iterator[Message]]
Stream = Callable[[Iterator[Message]], Message]
Context = Any  # grpc.ServicerContext, where gRPC has types


class Gate(Protocol):
    """Whom every request passes."""

    def arrive(self, method: str) -> bool:
        """Delay a request where that is a fault; False where its connection drops."""


class Guard:
    """Wraps the methods of services."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def unary(self, path: str, method: Unary) -> Callable[[Message, Context], Message]:
        """A method with one request and one answer, or a stream of requests."""

        def guarded(request: Message, context: Context) -> Message:
            self._pass(path, context)
            try:
                return method(request)
            except Exception as error:
                return self._refuse(path, error, context)

        return guarded

    def stream(self, path: str, method: Stream) -> Callable[[Message, Context], Message]:
        """A method that takes a stream: it ends when the client takes too long."""
        guarded = self.unary(path, method)

        def limited(requests: Message, context: Context) -> Message:
            timer = Timer(_STREAM_TIMEOUT_S, context.cancel)
            timer.daemon = True
            timer.start()
            try:
                return guarded(requests, context)
            finally:
                timer.cancel()

        return limited

    def answers(self, path: str, method: Answers) -> Callable[[Message, Context], Iterator[Message]]:
        """A method that answers with a stream."""

        def guarded(request: Message, context: Context) -> Iterator[Message]:
            self._pass(path, context)
            try:
                yield from method(request)
            except Exception as error:
                self._refuse(path, error, context)

        return guarded

    def _pass(self, path: str, context: Context) -> None:
        if not self._gate.arrive(path):
            context.abort(grpc.StatusCode.UNAVAILABLE, "board: connection dropped")

    def _refuse(self, path: str, error: Exception, context: Context) -> Message:
        """Answer with an error, in the way that the client looks for it."""
        known = isinstance(error, Error)
        if not context.is_active():  # the client has gone: nobody reads the answer
            return _abort(context, grpc.StatusCode.CANCELLED, "board: request was cancelled")
        if not known:
            _log.error("request %s failed", path, exc_info=error)
        text = str(error) if known else f"board: request must not fail, got {type(error).__name__}"
        if path in _MESSAGES:
            service, answer = _MESSAGES[path]
            return getattr(messages(service), answer)(msg=text)
        return _abort(context, grpc.StatusCode.FAILED_PRECONDITION if known else grpc.StatusCode.INTERNAL, text)


def _abort(context: Context, code: grpc.StatusCode, text: str) -> NoReturn:
    """End a call with an error; gRPC raises an exception of its own."""
    context.abort(code, text)
    raise AssertionError("gRPC must end the call")
