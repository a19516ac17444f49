# SPDX-License-Identifier: Apache-2.0
"""Files of a header, a JSON manifest and binary members, under one checksum.

Header (little-endian): a magic of 8 bytes, format version u32, manifest bytes u32, payload bytes
u64, then a SHA-256. Any changed bit is detected; reading never allocates more than the size of the
file, and writes nothing.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from vdla.support import atomic
from vdla.support.file_kind import described, unreadable

HEADER = struct.Struct("<8sIIQ")
DIGEST_BYTES = 32
PREFIX_BYTES = HEADER.size + DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A kind of file: its magic, its newest version, what it is in messages, the command that makes
    one, and its error.
    """

    magic: bytes
    version: int
    noun: str
    made_by: str
    error: type[Exception]

    # --- content

    def seal(self, manifest: bytes, members: Iterable[bytes]) -> bytes:
        """The content of a file with this manifest and these members."""
        payload = b"".join(members)
        header = HEADER.pack(self.magic, self.version, len(manifest), len(payload))
        digest = hashlib.sha256(header)
        digest.update(manifest)
        digest.update(payload)
        return b"".join((header, digest.digest(), manifest, payload))

    def unseal(self, content: bytes, where: str) -> tuple[bytes, Payload]:
        """The manifest and the members of a file's content; `where` names the file in errors."""
        if content[: len(self.magic)] != self.magic:
            rule = f"file must be a {self.noun} ({self.made_by})"
            raise self.error(f"{where}: {rule}, got {described(where, content)}")
        if len(content) < PREFIX_BYTES:
            size = len(content)
            raise self.error(f"{where}: length must be at least {PREFIX_BYTES} bytes, got {size} (truncated)")
        _, version, manifest_bytes, payload_bytes = HEADER.unpack_from(content)
        if version > self.version:
            newest = f"format version must be at most {self.version}"
            raise self.error(f"{where}: {newest}, got {version} (made by a newer vdla)")
        length = PREFIX_BYTES + manifest_bytes + payload_bytes
        if len(content) != length:
            raise self.error(f"{where}: length must be {length} bytes, got {len(content)}")
        self._check_digest(content, where)
        split = PREFIX_BYTES + manifest_bytes
        return content[PREFIX_BYTES:split], Payload(memoryview(content)[split:], self.error)

    def _check_digest(self, content: bytes, where: str) -> None:
        digest = hashlib.sha256(content[: HEADER.size])
        digest.update(memoryview(content)[PREFIX_BYTES:])
        computed, stored = digest.digest(), content[HEADER.size : PREFIX_BYTES]
        if stored != computed:
            raise self.error(f"{where}: checksum must be {stored.hex()[:12]}, got {computed.hex()[:12]} (damaged)")

    # --- files

    def write(self, path: str | PathLike[str], content: bytes) -> None:
        """Write a file, whole or not at all."""
        target = self._path(path)
        try:
            atomic.write_bytes(target, content)
        except OSError as error:
            raise self.error(f"{target}: path must be writable, got {error.strerror}") from None

    def read(self, path: str | PathLike[str]) -> bytes:
        """The content of a regular file."""
        source = self._path(path)
        try:
            if source.exists() and not source.is_file():  # reading a device or a pipe may never end
                kind = "a folder" if source.is_dir() else "a device or a pipe"
                raise self.error(f"{path}: path must be a regular file, got {kind}")
            return source.read_bytes()
        except OSError as error:
            raise self.error(unreadable(path, error)) from None

    def _path(self, path: str | PathLike[str]) -> Path:
        if not isinstance(path, str | PathLike) or "\0" in str(path):
            raise self.error(f"{self.noun} file: path must be a string or a path, got {path!r}")
        return Path(path)


class Payload:
    """The members of a file, taken in order."""

    def __init__(self, content: memoryview, error: type[Exception]) -> None:
        self._content, self._error = content, error
        self._position = 0

    def take(self, what: str, nbytes: int) -> memoryview:
        """The next `nbytes`, named `what` in errors."""
        rest = len(self._content) - self._position
        if not 0 <= nbytes <= rest:
            raise self._error(f"{what}: size must be at most the {rest} bytes left, got {nbytes}")
        self._position += nbytes
        return self._content[self._position - nbytes : self._position]

    def rest(self) -> memoryview:
        """All that is left."""
        return self.take("rest", len(self._content) - self._position)

    def finish(self) -> None:
        """Refuse bytes that belong to no member."""
        if self._position != len(self._content):
            raise self._error(f"payload: size must be {self._position} bytes, got {len(self._content)}")
