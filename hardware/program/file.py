"""The container of a program file: a header, a JSON manifest, then binary members, under one
checksum.

Header (little-endian): magic `VDLAPROG`, format version u32, manifest bytes u32, payload bytes u64,
then a SHA-256. Any changed bit is detected; reading never allocates more than the size of the file.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from vdla.hardware.program.errors import ProgramError
from vdla.support import atomic

MAGIC = b"VDLAPROG"
VERSION = 1
HEADER = struct.Struct("<8sIIQ")
DIGEST_BYTES = 32
PREFIX_BYTES = HEADER.size + DIGEST_BYTES


# --- content -------------------------------------------------------------------------------------


def seal(manifest: bytes, members: Iterable[bytes]) -> bytes:
    """The content of a file with this manifest and these members."""
    payload = b"".join(members)
    header = HEADER.pack(MAGIC, VERSION, len(manifest), len(payload))
    return header + hashlib.sha256(header + manifest + payload).digest() + manifest + payload


def unseal(content: bytes, where: str) -> tuple[bytes, Payload]:
    """The manifest and the members of a file's content; `where` names the file in errors."""
    if content[: len(MAGIC)] != MAGIC:
        got = f"one that begins with {content[:8]!r}" if content else "an empty file"
        raise ProgramError(f"{where}: file must be a VDLA program, got {got}")
    if len(content) < PREFIX_BYTES:
        raise ProgramError(f"{where}: length must be at least {PREFIX_BYTES} bytes, got {len(content)} (truncated)")
    _, version, manifest_bytes, payload_bytes = HEADER.unpack_from(content)
    if version > VERSION:
        raise ProgramError(f"{where}: format version must be at most {VERSION}, got {version} (made by a newer vdla)")
    length = PREFIX_BYTES + manifest_bytes + payload_bytes
    if len(content) != length:
        raise ProgramError(f"{where}: length must be {length} bytes, got {len(content)}")
    digest = hashlib.sha256(content[: HEADER.size] + content[PREFIX_BYTES:]).digest()
    stored = content[HEADER.size : PREFIX_BYTES]
    if stored != digest:
        raise ProgramError(f"{where}: checksum must be {stored.hex()[:12]}, got {digest.hex()[:12]} (damaged)")
    split = PREFIX_BYTES + manifest_bytes
    return content[PREFIX_BYTES:split], Payload(content[split:])


class Payload:
    """The members of a file, taken in order."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def take(self, what: str, nbytes: int) -> bytes:
        """The next `nbytes`, named `what` in errors."""
        rest = len(self._content) - self._position
        if not 0 <= nbytes <= rest:
            raise ProgramError(f"{what}: size must be at most the {rest} bytes left, got {nbytes}")
        self._position += nbytes
        return self._content[self._position - nbytes : self._position]

    def finish(self) -> None:
        """Refuse bytes that belong to no member."""
        if self._position != len(self._content):
            raise ProgramError(f"payload: size must be {self._position} bytes, got {len(self._content)}")


# --- files ---------------------------------------------------------------------------------------


def write(path: str | PathLike[str], content: bytes) -> None:
    """Write a file, whole or not at all."""
    target = _path(path)
    try:
        atomic.write_bytes(target, content)
    except OSError as error:
        raise ProgramError(f"{target}: path must be writable, got {error.strerror}") from None


def read(path: str | PathLike[str]) -> bytes:
    """The content of a regular file."""
    source = _path(path)
    try:
        if source.exists() and not source.is_file():  # reading a device or a pipe may never end
            kind = "a folder" if source.is_dir() else "a device or a pipe"
            raise ProgramError(f"{path}: path must be a regular file, got {kind}")
        return source.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: path must be a readable file, got {error.strerror}") from None


def _path(path: str | PathLike[str]) -> Path:
    if not isinstance(path, str | PathLike) or "\0" in str(path):
        raise ProgramError(f"program file: path must be a string or a path, got {path!r}")
    return Path(path)
