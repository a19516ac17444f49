# SPDX-License-Identifier: Apache-2.0
"""The client's side of a session: it is held open, resumed after a lost connection, and closed.

A batch has a number, and is sent again under it until its result is here: the server executes it
once. A thread watches the session's call and reconnects as soon as it ends.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.calls import AnswerStream, CallFailed
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import DAMAGED, SESSION, RemoteError
from vdla.runtime.remote.messages import (
    Accepted,
    Await,
    Batch,
    BatchReply,
    Cancel,
    Close,
    Goodbye,
    Hello,
    Lacking,
    Offer,
    Operation,
    Pending,
    Reserve,
    Upload,
    Welcome,
    receive,
    send,
)
from vdla.runtime.remote.open_calls import open_calls
from vdla.runtime.remote.service import POLL_S

_CALL_S = 2 * POLL_S
"""Seconds after which a call without an answer is given up and made again."""
_CLOSE_S = 5.0
_BACKOFF_S = (0.02, 0.5)
_ANSWER: Any = BatchReply | Pending


class NotExecuted(RemoteError):
    """A refusal: nothing of the request was done."""


class Connection:
    """A session with a server. Used by one thread at a time, except for `cancel`."""

    def __init__(
        self, address: Address, credentials: Credentials, hello: Hello, connect_s: float, wait_s: float
    ) -> None:
        self.address, self._credentials, self._hello = address, credentials, hello
        self._connect_s, self._wait_s = connect_s, wait_s
        self._closing = False
        self._lost: RemoteError | None = None
        self._attached = threading.Event()
        self._request = self._acknowledged = 0
        self._channel = open_calls(address, credentials, connect_s)
        try:
            self._stream, self.welcome = self._open(hello, connect_s)
        except BaseException:
            self._channel.close()
            raise
        self._hello = Hello(hello.version, hello.client, hello.fingerprint, hello.memory_bytes, self.welcome.token)
        self._attached.set()
        self._keeper = threading.Thread(target=self._keep, name=f"session {address}", daemon=True)
        self._keeper.start()

    # --- the session's call

    def _open(self, hello: Hello, timeout_s: float) -> tuple[AnswerStream, Welcome]:
        stream = self._channel.stream(send(hello))
        timer = threading.Timer(timeout_s, stream.cancel)
        timer.daemon = True
        timer.start()
        try:
            return stream, receive(Welcome, next(stream), str(self.address))[0]
        except StopIteration:
            raise RemoteError(f"{self.address}: server must greet the session, got its end") from None
        except CallFailed as error:
            raise error.explained(self.address) from None
        except BaseException:
            stream.cancel()
            raise
        finally:
            timer.cancel()

    def _keep(self) -> None:
        """Wait for the end of the session's call and resume it, until the session has ended."""
        while not self._closing:
            try:
                for frame in self._stream:
                    goodbye, _ = receive(Goodbye, frame, str(self.address))
                    self._lost = RemoteError(
                        f"{self.address}: session must be open, got its end: {goodbye.reason}; open the device again",
                        SESSION,
                    )
            except (CallFailed, RemoteError):
                pass
            self._attached.clear()
            if self._closing or self._lost is not None or not self._resume():
                return
            self._attached.set()

    def _resume(self) -> bool:
        """Whether the session could be resumed within its grace."""
        end = time.monotonic() + self.welcome.grace_s
        error = RemoteError(f"{self.address}: connection was lost")
        while not self._closing and time.monotonic() < end:
            try:
                self._stream, _ = self._open(self._hello, max(0.1, min(_CALL_S, end - time.monotonic())))
                return True
            except RemoteError as refusal:
                error = refusal
                if refusal.code == SESSION:
                    break
            time.sleep(random.uniform(*_BACKOFF_S) / 2)
        self._lost = RemoteError(f"{error}; the session is lost, open the device again", SESSION)
        return False

    # --- calls

    def _call(self, name: str, frame: bytes, kind: Any) -> tuple[Any, memoryview]:  # noqa: ANN401
        """The reply to a frame, which is sent again after failures of the connection."""
        function = self._channel.function(name)
        end = time.monotonic() + self._wait_s
        failures = 0
        while True:
            try:
                answer = function(frame, _CALL_S)
            except CallFailed as error:
                problem = error.explained(self.address)
                if error.permanent:
                    raise problem from None
            else:
                try:
                    return receive(kind, answer, str(self.address))
                except RemoteError as error:
                    if error.code != DAMAGED:
                        raise NotExecuted(str(error), error.code) from None
                    problem = error
            failures += 1
            if self._lost is not None:
                raise self._lost
            if time.monotonic() > end:
                raise problem
            time.sleep(random.uniform(*_BACKOFF_S) * min(1.0, failures / 8))

    def batch(
        self, operations: Iterable[Operation], parts: Iterable[bytes | memoryview] = ()
    ) -> tuple[BatchReply, memoryview]:
        """The result of a batch; RemoteError where it was refused as a whole."""
        if self._lost is not None:
            raise self._lost
        self._request += 1
        number = self._request
        token = self.welcome.token
        frame = send(Batch(token, number, self._acknowledged, tuple(operations)), parts)
        again = send(Await(token, number))
        end = time.monotonic() + self._wait_s
        try:
            reply, data = self._call("Submit", frame, _ANSWER)
            while isinstance(reply, Pending):
                if time.monotonic() > end:
                    self.cancel(number)
                    raise RemoteError(
                        f"{self.address}: batch must end within {self._wait_s:g} s, got {reply.ahead} others waiting"
                    )
                reply, data = self._call("Submit", again, _ANSWER)
        except RemoteError as error:
            if not isinstance(error, NotExecuted):
                self._lost = self._lost or self._unknown(number)
            raise
        except BaseException:  # an interrupt
            self._withdraw(number, again)
            raise
        self._acknowledged = number
        return reply, data

    def _unknown(self, number: int) -> RemoteError:
        return RemoteError(
            f"{self.address}: session must know what was executed, got no answer to batch {number}; "
            "open the device again",
            SESSION,
        )

    def _withdraw(self, number: int, again: bytes) -> None:
        """Cancels a batch; the session is lost unless the server reports the outcome."""
        self.cancel(number)
        end = time.monotonic() + _CLOSE_S
        self._lost = self._lost or self._unknown(number)
        while time.monotonic() < end:
            try:
                reply = self._channel.function("Submit")(again, _CLOSE_S)
                if isinstance(receive(_ANSWER, reply, str(self.address))[0], BatchReply):
                    self._lost = None
                    return
            except (CallFailed, RemoteError):
                return

    def cancel(self, number: int) -> None:
        """Withdraw a batch, if the server can be reached."""
        with suppress(CallFailed):
            self._channel.function("Cancel")(send(Cancel(self.welcome.token, number)), _CLOSE_S)

    def ensure(self, sha256: str, content: bytes) -> None:
        """Let the server hold a content: it is uploaded where the server lacks it."""
        for _ in range(8):  # an upload whose reply was lost, or that another pushed out, begins again
            lacking, _data = self._call("Offer", send(Offer(self.welcome.token, (sha256,))), Lacking)
            if sha256 not in lacking.hashes:
                return
            try:
                self._upload(sha256, content)
                return
            except RemoteError as error:
                problem = error
                if error.code == SESSION:
                    raise
        raise problem

    def _upload(self, sha256: str, content: bytes) -> None:
        view, step = memoryview(content), self.welcome.chunk_bytes
        for offset in range(0, len(view), step):
            message = Upload(self.welcome.token, sha256, len(view), offset)
            self._call("Upload", send(message, [view[offset : offset + step]]), Accepted)

    def reserve(self, seconds: float) -> None:
        """Have the board alone for so many seconds; RemoteError while others use it."""
        self._call("Reserve", send(Reserve(self.welcome.token, seconds)), Accepted)

    def close(self) -> None:
        """End the session; the server releases what it holds."""
        if self._closing:
            return
        self._closing = True
        with suppress(CallFailed):  # without it, the server ends the session after its grace
            if self._lost is None:
                self._channel.function("Close")(send(Close(self.welcome.token)), _CLOSE_S)
        self._stream.cancel()
        self._channel.close()
        self._keeper.join(_CLOSE_S)
