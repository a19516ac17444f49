# SPDX-License-Identifier: Apache-2.0
"""Calls between client and server, whatever carries them: gRPC, or HTTP/1.1 without a library.

A call has a name, a frame and a frame as its answer; the call of a session has a stream of answers.
All rules of sessions, batches and limits are above this, so that both carriers have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Protocol

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.errors import RemoteError

SESSION_CALL = "Session"
CHANNEL = "vdla.runtime.remote.channel"
"""The module of calls over gRPC, which is not on a board."""
DENIED = "token must be that of the server, got another or none"


class CallFailed(Exception):
    """A call without an answer; one that is `permanent` fails however often it is made.

    `code` says what kind of failure it is, "" where `details` are a whole sentence; `words` say
    both.
    """

    def __init__(self, code: str, details: str, *, permanent: bool = False, words: str = "") -> None:
        super().__init__(details)
        self.code, self.details, self.permanent = code, details, permanent
        self.words = words or f"{code}: {details}"

    def explained(self, address: Address) -> RemoteError:
        """The failure as an error of VDLA."""
        if not self.code:
            return RemoteError(f"{address}: {self.details}")
        return RemoteError(f"{address}: server must answer, got {self.words}")


class AnswerStream(Protocol):
    """The answers of a session's call."""

    def __iter__(self) -> Iterator[bytes]:
        """The frames that are still to come."""

    def __next__(self) -> bytes:
        """The next frame; CallFailed where the connection is lost, StopIteration at its end."""

    def cancel(self) -> None:
        """End the call, from any thread."""


class Calls(Protocol):
    """A client's calls to one server; every one may raise CallFailed."""

    address: Address

    def function(self, name: str) -> Callable[[bytes, float], bytes]:
        """The call `name`, a function of a frame and a timeout in seconds."""

    def stream(self, frame: bytes) -> AnswerStream:
        """The call of a session."""

    def wait_ready(self, timeout_s: float) -> None:
        """RemoteError unless a connection stands within the time."""

    def close(self) -> None:
        """End all calls and the connection."""


class CallContext(Protocol):
    """What the server's side of a session's call knows of its client."""

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the client has gone; False if it has already."""

    def is_active(self) -> bool:
        """Whether the client is still there."""


class Listener(Protocol):
    """The server's side of a carrier; it listens from the beginning, and answers after `start`."""

    port: int

    def start(self) -> None:
        """Answer calls."""

    def stop(self, timeout_s: float) -> None:
        """End all calls; those in progress have some seconds."""


def not_free(address: Address, reason: object = "") -> RemoteError:
    """The error of an address on which nothing can listen."""
    why = f": {reason}" if reason else ""
    return RemoteError(f"server: address must be free to listen on, got {address.target}{why}")


def has_grpc() -> bool:
    """Whether gRPC is installed, and our part for it, which the package for boards does without."""
    return find_spec("grpc") is not None and find_spec(CHANNEL) is not None
