# SPDX-License-Identifier: Apache-2.0
"""What a server grants its clients: bytes, seconds, numbers.

Every limit holds for hostile clients as well. Memory of the server process is at most about
`(sessions * (in_flight + 1) + spare) * message_bytes + cache_bytes + sessions * reply_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from vdla.runtime.remote.errors import RemoteError
from vdla.support.integers import is_int


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server; all are at least 1."""

    sessions: int = 16
    queue: int = 256
    """Batches that wait, of all sessions."""
    session_queue: int = 16
    """Batches that wait, of one session."""
    in_flight: int = 6
    """Calls of one session at a time."""
    message_bytes: int = 1 << 20
    """Raw bytes of a message; larger data takes several."""
    operations: int = 1024
    """Operations of a batch."""
    memory_bytes: int = 1 << 29
    """Device memory of one session."""
    total_memory_bytes: int = 1 << 30
    """Device memory of all sessions."""
    blocks: int = 4096
    """Blocks of one session."""
    cache_bytes: int = 1 << 28
    """Programs and constants that the server keeps, unfinished uploads included."""
    content_bytes: int = 1 << 26
    """One program or constant."""
    reply_bytes: int = 1 << 26
    """Results of one session that it has not acknowledged."""
    run_s: float = 60.0
    """Seconds of a run; then the watchdog ends it."""
    reserve_s: float = 3600.0
    """The longest reservation."""
    grace_s: float = 10.0
    """Seconds that a session without a connection is kept."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and not is_int(value):
                raise RemoteError(f"limits: {field.name} must be an integer from 1, got {value!r}")
            if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0 or value != value:
                raise RemoteError(f"limits: {field.name} must be a number above 0, got {value!r}")
            if field.type == "int" and value < 1:
                raise RemoteError(f"limits: {field.name} must be an integer from 1, got {value!r}")

    @property
    def frame_bytes(self) -> int:
        """The largest frame: raw bytes and a header."""
        return self.message_bytes + (1 << 18) + 64

    @property
    def threads(self) -> int:
        """Calls that the server serves at once."""
        return self.sessions * (self.in_flight + 1) + 8
