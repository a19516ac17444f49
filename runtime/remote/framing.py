# SPDX-License-Identifier: Apache-2.0
"""Frames: the length of a JSON header, a checksum, the header, then raw bytes.

Two u32, little-endian: header bytes, and CRC-32 over the length and all that follows it. A frame
that breaks a rule is refused before any of its content is used.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

from vdla.runtime.remote.errors import DAMAGED, RemoteError

PREFIX = struct.Struct("<II")
_LENGTH = struct.Struct("<I")
MOST_HEADER_BYTES = 1 << 18


def pack(header: Any, parts: Iterable[bytes | memoryview] = ()) -> bytes:  # noqa: ANN401  JSON
    """The frame of a header and the bytes behind it."""
    text = json.dumps(header, separators=(",", ":")).encode()
    length = _LENGTH.pack(len(text))
    content = b"".join((text, *parts))
    return b"".join((length, _LENGTH.pack(zlib.crc32(content, zlib.crc32(length))), content))


def unpack(frame: bytes) -> tuple[Any, memoryview]:
    """The header of a frame and the bytes behind it.

    Raises:
        RemoteError: with code DAMAGED where the checksum differs.
    """
    if len(frame) < PREFIX.size:
        raise RemoteError(f"frame: length must be at least {PREFIX.size} bytes, got {len(frame)}", DAMAGED)
    length, stated = PREFIX.unpack_from(frame)
    view = memoryview(frame)
    checksum = zlib.crc32(view[PREFIX.size :], zlib.crc32(view[: _LENGTH.size]))
    if checksum != stated:
        raise RemoteError(f"frame: checksum must be {checksum:08x}, got {stated:08x} (damaged on the way)", DAMAGED)
    most = min(MOST_HEADER_BYTES, len(frame) - PREFIX.size)
    if length > most:
        raise RemoteError(f"frame: header must be at most {most} bytes, got {length}")
    end = PREFIX.size + length
    return _parse(bytes(view[PREFIX.size : end])), view[end:]


def _parse(text: bytes) -> Any:  # noqa: ANN401  JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteError(f"frame: header must be JSON, got {type(error).__name__}") from None
