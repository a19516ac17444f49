# SPDX-License-Identifier: Apache-2.0
"""The connections of a server that has a thread for each of them, and who may hold one.

A stranger is a connection without a call that was allowed. The invariant: strangers keep nobody
out. One that says nothing is ended after some seconds; where all places are in use, the oldest one
of the peer with the most of them gives way; and a peer has at most half of the places for them.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

_LOST = (OSError, ValueError)  # of a connection that ends; ssl gives both


@dataclass(frozen=True, slots=True)
class _Stranger:
    """Where a connection comes from, and since when it is open."""

    peer: str
    since: float


class OpenConnections:
    """The open connections, at most `most`; `clock` gives seconds."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._open: set[socket.socket] = set()
        self._strangers: dict[socket.socket, _Stranger] = {}  # the oldest first
        self._changed = threading.Condition()

    def accept(self, connection: socket.socket, peer: str) -> bool:
        """Take in a stranger, if need be in place of another one; False where none is to end."""
        with self._changed:
            peers = Counter(stranger.peer for stranger in self._strangers.values())
            if peers[peer] >= max(1, self._most // 2):
                self._end_oldest(peer)
            elif len(self._open) >= self._most and peers:
                self._end_oldest(peers.most_common(1)[0][0])
            if len(self._open) >= self._most:
                return False
            self._open.add(connection)
            self._strangers[connection] = _Stranger(peer, self._clock())
            return True

    def replace(self, old: socket.socket, new: socket.socket) -> None:
        """Put a connection with TLS in the place of the one below it."""
        with self._changed:
            if old not in self._open:  # it was ended meanwhile
                shut(new)
                return
            self._open.remove(old)
            self._open.add(new)
            self._strangers = {new if one is old else one: who for one, who in self._strangers.items()}

    def know(self, connection: socket.socket) -> None:
        """A call of the connection was allowed: it is a stranger no more."""
        with self._changed:
            self._strangers.pop(connection, None)

    def remove(self, connection: socket.socket) -> None:
        """Forget a connection that has ended."""
        with self._changed:
            self._strangers.pop(connection, None)
            self._open.discard(connection)
            self._changed.notify_all()

    def end_late(self, first_s: float) -> None:
        """End the strangers that are open for more than some seconds."""
        with self._changed:
            for connection in list(self._late(self._clock() - first_s)):
                self._end(connection)

    def end_all(self, timeout_s: float) -> None:
        """End every connection, and wait until their threads have."""
        with self._changed:
            for connection in self._open:
                shut(connection)
            self._changed.wait_for(lambda: not self._open, timeout_s)

    def _late(self, before: float) -> Iterator[socket.socket]:
        return (connection for connection, stranger in self._strangers.items() if stranger.since < before)

    def _end_oldest(self, peer: str) -> None:
        self._end(next(one for one, stranger in self._strangers.items() if stranger.peer == peer))

    def _end(self, connection: socket.socket) -> None:
        """End a stranger, whose thread wakes; its place is free at once."""
        del self._strangers[connection]
        self._open.remove(connection)
        shut(connection)


def shut(connection: socket.socket) -> None:
    """End a connection from any thread: whoever waits for it wakes. Its TLS state stays."""
    with suppress(*_LOST):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
