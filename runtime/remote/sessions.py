# SPDX-License-Identifier: Apache-2.0
"""The sessions of a server by their secret tokens, from Hello to their end, and their memory.

A session outlives its connection by `grace_s`, so that a client can come back. Its blocks belong to
the thread of the device, as `SessionMemory` does; the rest is guarded by its lock.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.remote.errors import SESSION, RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.results import KeptResults
from vdla.support.errors import Error


@dataclass(eq=False, slots=True)
class ContentUpload:
    """A content on its way: `content` has the bytes that have come."""

    sha256: str
    total: int
    content: bytearray = field(default_factory=bytearray)


@dataclass(eq=False, slots=True, kw_only=True)
class Session:
    """A client's session. It ends when it is closed, lost, or without a connection for too long."""

    number: int
    digest: bytes  # of its token
    client: str
    epoch: int  # of the device that holds its memory
    memory_bytes: int
    results: KeptResults
    blocks: dict[int, int] = field(default_factory=dict)  # address: bytes
    used_bytes: int = 0
    upload: ContentUpload | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    calls: int = 0
    connection: int = 0  # counts connections; those before the newest no longer matter
    detached_s: float | None = None  # the time at which the last connection ended
    closed: bool = False
    lost: str = ""
    reserved_until_s: float = 0.0
    changed: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def call(self, most: int) -> Iterator[None]:
        """One of at most `most` calls at a time."""
        with self.lock:
            self.require_open()
            if self.calls >= most:
                raise RemoteError(f"session: at most {most} calls must be in progress, got more")
            self.calls += 1
        try:
            yield
        finally:
            with self.lock:
                self.calls -= 1

    @property
    def reserved_s(self) -> float:
        """The seconds for which it still has the board alone."""
        return 0.0 if self.closed else max(0.0, self.reserved_until_s - time.monotonic())

    def require_open(self) -> None:
        """RemoteError for a session that has ended."""
        if self.lost:
            raise RemoteError(f"session: memory must be intact, got lost: {self.lost}; open the device again", SESSION)
        if self.closed:
            raise RemoteError("session: session must be open, got one that has ended; open the device again", SESSION)


class SessionMemory:
    """Counts the memory of sessions; refuses requests beyond the limits or for memory of others."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.used_bytes = self.blocks = 0

    def allocate(self, device: Device, session: Session, nbytes: int) -> int:
        """The address of a new block of a session."""
        where = f"device {device.name}"
        if nbytes < 1:
            raise DeviceError(f"{where}: allocation in bytes must be at least 1, got {nbytes}")
        if len(session.blocks) >= self._limits.blocks:
            raise DeviceError(f"{where}: a session must have at most {self._limits.blocks} blocks, got one more")
        if session.used_bytes + nbytes > session.memory_bytes:
            raise DeviceError(
                f"{where}: cannot allocate {nbytes} bytes of DRAM, the session holds {session.used_bytes} "
                f"of its {session.memory_bytes}; free tensors or ask for a higher limit"
            )
        if self.used_bytes + nbytes > self._limits.total_memory_bytes:
            raise DeviceError(
                f"{where}: cannot allocate {nbytes} bytes of DRAM, all sessions hold {self.used_bytes} "
                f"of {self._limits.total_memory_bytes}; try again later"
            )
        address = device.allocate(nbytes)
        session.blocks[address] = nbytes
        self._count(session, nbytes, 1)
        return address

    def _count(self, session: Session, nbytes: int, blocks: int) -> None:
        session.used_bytes += nbytes
        self.used_bytes += nbytes
        self.blocks += blocks

    def release(self, device: Device, session: Session, address: int) -> None:
        """Free a block of a session."""
        if address not in session.blocks:
            raise DeviceError(
                f"device {device.name}: address to free must be one that allocate returned, got {address}"
            )
        device.free(address)
        self._count(session, -session.blocks.pop(address), -1)

    def release_all(self, device: Device, session: Session) -> None:
        """Free what a session holds; what the device refuses is gone anyway."""
        for address in list(session.blocks):
            with suppress(Error):
                device.free(address)
            self._count(session, -session.blocks.pop(address), -1)

    @staticmethod
    def require(device: Device, session: Session, address: int, nbytes: int) -> None:
        """DeviceError unless a range lies in one block of the session."""
        starts = sorted(session.blocks)
        index = bisect_right(starts, address) - 1
        start = starts[index] if index >= 0 else None
        if start is None or nbytes < 0 or address + nbytes > start + session.blocks[start]:
            raise DeviceError(
                f"device {device.name}: access must lie in one allocated block, got {nbytes} bytes at {address}"
            )


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
            for session in self._by_digest.values():
                if session.reserved_s:
                    raise RemoteError(
                        f"session: board must not be reserved, got a reservation of {session.client} for another "
                        f"{session.reserved_s:.0f} s; try again then"
                    )
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

    def reserve(self, session: Session, seconds: float) -> None:
        """Let a session have the board alone; RemoteError while others are open."""
        most = self._limits.reserve_s
        if not 0 < seconds <= most:
            raise RemoteError(
                f"session: seconds of a reservation must be above 0 and at most {most:g}, got {seconds:g}"
            )
        with self._lock:
            session.require_open()
            others = [one.client for one in self._by_digest.values() if one is not session and not one.closed]
            if others:
                raise RemoteError(
                    f"session: board must have no other client to be reserved, got {', '.join(sorted(others))}; "
                    "try again when they have ended"
                )
            session.reserved_until_s = time.monotonic() + seconds

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

    def opened(self) -> list[Session]:
        """The sessions that have not ended, the oldest first."""
        return sorted((session for session in self.all() if not session.closed), key=lambda session: session.number)

    def all(self) -> list[Session]:
        """The sessions that are known."""
        with self._lock:
            return list(self._by_digest.values())

    def __len__(self) -> int:
        return len(self.opened())
