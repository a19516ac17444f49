# SPDX-License-Identifier: Apache-2.0
"""The results of a session's batches, kept until the client has acknowledged them.

A batch is executed at most once: a second message with its number gets the result of the first.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from vdla.runtime.remote.errors import RemoteError

MOST_KEPT = 64


@dataclass(eq=False, slots=True)
class PendingResult:
    """The reply of one batch; the first `finish` counts."""

    request: int
    reply: bytes | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def finish(self, reply: bytes) -> None:
        """Set the reply, unless there is one."""
        if not self.ended.is_set():
            self.reply = reply
            self.ended.set()


class KeptResults:
    """At most MOST_KEPT replies and about `most_bytes` of them that nobody acknowledged."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[int, PendingResult] = {}
        self._acknowledged = 0
        self._lock = threading.Lock()

    def begin(self, request: int, acknowledged: int) -> tuple[PendingResult, bool]:
        """The result of a batch, and whether the batch is new."""
        with self._lock:
            self._acknowledge(request, acknowledged)
            if request in self._kept:
                return self._kept[request], False
            if request <= self._acknowledged:
                raise RemoteError(f"batch: number must be above {self._acknowledged}, got {request} again")
            if len(self._kept) >= MOST_KEPT:
                raise RemoteError(f"batch: results to acknowledge must be at most {MOST_KEPT}, got {len(self._kept)}")
            waiting = sum(len(result.reply or b"") for result in self._kept.values())
            if waiting > self._most_bytes:
                raise RemoteError(
                    f"batch: results to acknowledge must take at most {self._most_bytes} bytes, got {waiting}"
                )
            self._kept[request] = PendingResult(request)
            return self._kept[request], True

    def _acknowledge(self, request: int, acknowledged: int) -> None:
        if not 0 <= acknowledged < request:
            raise RemoteError(f"batch: acknowledged must be from 0 to {request - 1}, got {acknowledged}")
        for number in [n for n, result in self._kept.items() if n <= acknowledged]:
            if not self._kept[number].ended.is_set():
                raise RemoteError(f"batch: acknowledged must be of ended batches, got {number}, which has not ended")
            del self._kept[number]
        self._acknowledged = max(self._acknowledged, acknowledged)

    def get(self, request: int) -> PendingResult:
        """The result of a batch that began."""
        with self._lock:
            if request not in self._kept:
                raise RemoteError(f"batch: number must be of a batch with a result to fetch, got {request}")
            return self._kept[request]

    def forget(self, request: int) -> None:
        """Undo `begin` for a batch that did not enter the queue."""
        with self._lock:
            self._kept.pop(request, None)
