"""What the server knows of one client: its blocks, its results, its upload, its connection.

`blocks` belong to the thread of the device; the rest is guarded by `lock`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vdla.runtime.remote.errors import SESSION, RemoteError
from vdla.runtime.remote.results import KeptResults


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

    def require_open(self) -> None:
        """RemoteError for a session that has ended."""
        if self.lost:
            raise RemoteError(f"session: memory must be intact, got lost: {self.lost}; open the device again", SESSION)
        if self.closed:
            raise RemoteError("session: session must be open, got one that has ended; open the device again", SESSION)
