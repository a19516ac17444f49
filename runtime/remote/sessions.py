"""The sessions of a server by their secret tokens, from Hello to their end.

A session outlives its connection by `grace_s`, so that a client can come back. `on_end` is called
once for every session, when nobody can use it any more.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable

from vdla.runtime.remote.errors import SESSION, RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.results import KeptResults
from vdla.runtime.remote.session import Session

_TOKEN_BYTES = 32


def _digest(token: str) -> bytes:
    """Sessions are looked up by a digest, so that the time of a lookup says nothing of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Sessions:
    """At most `limits.sessions` at a time."""

    def __init__(self, limits: Limits, on_end: Callable[[Session], None]) -> None:
        self._limits, self._on_end = limits, on_end
        self._by_digest: dict[bytes, Session] = {}
        self._lock = threading.Lock()
        self._opened = 0

    def open(self, client: str, epoch: int, memory_bytes: int | None) -> tuple[str, Session]:
        """A new session and its token."""
        limit = self._limits.memory_bytes
        if memory_bytes is not None and not 1 <= memory_bytes <= limit:
            raise RemoteError(f"session: memory_bytes must be from 1 to {limit}, got {memory_bytes}")
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._lock:
            if sum(not session.closed for session in self._by_digest.values()) >= self._limits.sessions:
                raise RemoteError(f"session: at most {self._limits.sessions} clients must be connected, got one more")
            self._opened += 1
            session = Session(
                number=self._opened,
                digest=_digest(token),
                client=client[:80],
                epoch=epoch,
                memory_bytes=memory_bytes or limit,
                results=KeptResults(self._limits.reply_bytes),
            )
            self._by_digest[session.digest] = session
        return token, session

    def get(self, token: str) -> Session:
        """The session of a token."""
        with self._lock:
            session = self._by_digest.get(_digest(token))
        if session is None:
            raise RemoteError(
                "session: token must be that of an open session, got another; open the device again", SESSION
            )
        return session

    def attach(self, session: Session) -> int:
        """A new connection of a session; its number."""
        with session.lock:
            session.require_open()
            session.connection += 1
            session.detached_s = None
            session.changed.set()  # the connection before this one ends
            session.changed = threading.Event()
            return session.connection

    def detach(self, session: Session, connection: int) -> None:
        """A connection ended; from now on the session's grace runs, unless there is a newer one."""
        with session.lock:
            if session.connection == connection:
                session.detached_s = time.monotonic()
                session.changed.set()

    def end(self, session: Session, lost: str = "") -> None:
        """End a session; with `lost`, because its memory is."""
        with self._lock:
            if self._by_digest.get(session.digest) is not session or session.closed:
                return
            if not lost:
                del self._by_digest[session.digest]
        with session.lock:
            session.closed, session.lost = True, lost
            if session.detached_s is None and lost:
                session.detached_s = time.monotonic()  # the client may ask once more what happened
            session.changed.set()
        self._on_end(session)

    def lose_all(self, reason: str) -> None:
        """End all sessions, because the device's memory is gone; later calls name the reason."""
        for session in self.all():
            self.end(session, reason)

    def expire(self) -> None:
        """End the sessions whose clients did not come back, and forget lost ones."""
        now = time.monotonic()
        for session in self.all():
            since = session.detached_s
            if since is None or now - since < self._limits.grace_s:
                continue
            if session.closed:
                with self._lock:
                    self._by_digest.pop(session.digest, None)
            else:
                self.end(session)

    def end_all(self) -> None:
        """End every session, when the server stops."""
        for session in self.all():
            self.end(session)

    def all(self) -> list[Session]:
        """The sessions that are known."""
        with self._lock:
            return list(self._by_digest.values())

    def __len__(self) -> int:
        return sum(not session.closed for session in self.all())
