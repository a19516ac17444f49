# SPDX-License-Identifier: Apache-2.0
"""Programs and constants by the SHA-256 of their bytes, the least recently used dropped first.

Uploads in progress count towards the limit. A content is stored only under its true hash.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable

from vdla.hardware.program import Program
from vdla.runtime.remote.errors import UNKNOWN_CONTENT, RemoteError

_PARSED = 3  # a parsed program takes about this many times the bytes of its file


class ContentCache:
    """At most `most_bytes` of contents; `hits` and `misses` count lookups by offer."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.hits = self.misses = 0
        self._contents: OrderedDict[str, bytes | Program] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._reserved = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of contents and of uploads in progress."""
        with self._lock:
            return self._used()

    def _used(self) -> int:
        return sum(self._sizes.values()) + self._reserved

    def lacking(self, hashes: Iterable[str]) -> tuple[str, ...]:
        """Those of the hashes that are not here; the others become the most recently used."""
        with self._lock:
            result = []
            for name in hashes:
                if name in self._contents:
                    self._contents.move_to_end(name)
                    self.hits += 1
                else:
                    self.misses += 1
                    result.append(name)
            return tuple(result)

    def get(self, sha256: str) -> bytes | Program:
        """A content: bytes, or a program once `put_program` replaced them."""
        with self._lock:
            if sha256 not in self._contents:
                raise RemoteError(f"content: {sha256[:12]} must be uploaded first, got a hash alone", UNKNOWN_CONTENT)
            self._contents.move_to_end(sha256)
            return self._contents[sha256]

    def put_program(self, sha256: str, program: Program, nbytes: int) -> None:
        """Keep the parsed program in place of its bytes."""
        with self._lock:
            if sha256 in self._contents:
                self._contents[sha256] = program
                self._sizes[sha256] = _PARSED * nbytes
                self._shrink(0)

    def reserve(self, nbytes: int) -> None:
        """Make room for an upload."""
        with self._lock:
            if self._reserved + nbytes > self.most_bytes:
                raise RemoteError(
                    f"upload: contents on their way must take at most {self.most_bytes} bytes, "
                    f"got {self._reserved + nbytes}; try again later"
                )
            self._shrink(nbytes)
            self._reserved += nbytes

    def release(self, nbytes: int) -> None:
        """Give back what `reserve` took."""
        with self._lock:
            self._reserved -= nbytes

    def put(self, sha256: str, content: bytes) -> None:
        """Store a content; RemoteError unless it has this hash."""
        digest = hashlib.sha256(content).hexdigest()
        if digest != sha256:
            raise RemoteError(f"upload: SHA-256 must be {digest[:12]} for these bytes, got {sha256[:12]}")
        with self._lock:
            if sha256 in self._contents:
                return
            self._shrink(len(content))
            self._contents[sha256] = content
            self._sizes[sha256] = len(content)

    def _shrink(self, nbytes: int) -> None:
        while self._contents and self._used() + nbytes > self.most_bytes:
            name, _ = self._contents.popitem(last=False)
            del self._sizes[name]
