"""The file of a program: a header, a JSON manifest, then the arrays one after another, under one checksum.

Header (little-endian): magic `VDLAPROG`, format version u32, manifest bytes u32, payload bytes u64, then a SHA-256.
Any bit of the file that differs from what was written is noticed; nothing is allocated beyond the size of the file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from vdla.hardware.config import Config, ConfigError
from vdla.hardware.isa import instruction_bytes
from vdla.hardware.program.program import Program, ProgramError, Tensor

MAGIC = b"VDLAPROG"
VERSION = 1
HEADER = struct.Struct("<8sIIQ")
DIGEST_BYTES = 32
PREFIX_BYTES = HEADER.size + DIGEST_BYTES


# --- writing ---------------------------------------------------------------------------------------------------------


def _describe(tensor: Tensor) -> dict[str, Any]:
    described: dict[str, Any] = {name: getattr(tensor, name) for name in ("name", "role", "dtype", "layout", "nbytes")}
    return {**described, "shape": list(tensor.shape), "has_data": tensor.data is not None}


def _manifest(program: Program) -> bytes:
    manifest = {
        "name": program.name,
        "config": program.config.to_dict(),
        "instructions": len(program),
        "tensors": [_describe(tensor) for tensor in program.tensors],
        "source_lines": list(program.source_lines),
    }
    return json.dumps(manifest, indent=1, sort_keys=True).encode()


def to_bytes(program: Program) -> bytes:
    """The content of the file; equal programs give equal bytes."""
    members = [np.ascontiguousarray(program.words).tobytes()]
    members += [array.astype("<i4").tobytes() for array in (program.tensor_of, program.source_of)]
    members += [tensor.data for tensor in program.tensors if tensor.data is not None]
    manifest, payload = _manifest(program), b"".join(members)
    header = HEADER.pack(MAGIC, VERSION, len(manifest), len(payload))
    return header + hashlib.sha256(header + manifest + payload).digest() + manifest + payload


def write(program: Program, path: str | PathLike[str]) -> None:
    """Write the file through a temporary one beside it, so that a reader sees the old content or the new.

    A symbolic link stays one; a device or a pipe, which nothing may replace, is written in place.
    """
    target, content = _path(path), to_bytes(program)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(target)), content)
    except OSError as error:
        raise ProgramError(f"{target}: path must be writable, got {error.strerror}") from None


def _path(path: str | PathLike[str]) -> Path:
    if not isinstance(path, str | PathLike) or "\0" in str(path):
        raise ProgramError(f"program file: path must be a string or a path, got {path!r}")
    return Path(path)


def _replace(target: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


# --- reading ---------------------------------------------------------------------------------------------------------


def read(path: str | PathLike[str]) -> Program:
    """The program in the file at `path`."""
    source = _path(path)
    try:
        if source.exists() and not source.is_file():  # a device or a pipe could be endless
            raise ProgramError(f"{path}: path must be a regular file, got {_kind(source)}")
        content = source.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: path must be a readable file, got {error.strerror}") from None
    return from_bytes(content, str(path))


def _kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "a device or a pipe"


def from_bytes(content: bytes, where: str) -> Program:
    """The program in the content of a file; `where` names it in errors."""
    manifest, payload = _open(content, where)
    try:
        return _build(json.loads(manifest), payload)
    except (ProgramError, ConfigError) as error:
        raise ProgramError(f"{where}: content must be a valid program, got {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ProgramError(f"{where}: manifest must describe a program, got {type(error).__name__}: {error}") from None


def _open(content: bytes, where: str) -> tuple[bytes, bytes]:
    if content[: len(MAGIC)] != MAGIC:
        raise ProgramError(f"{where}: file must be a VDLA program, got one that begins with {content[:8]!r}")
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
    return content[PREFIX_BYTES:split], content[split:]


class _Payload:
    """Takes the members off the payload in order."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def take(self, what: str, nbytes: int) -> bytes:
        """The next `nbytes`."""
        rest = len(self._content) - self._position
        if not 0 <= nbytes <= rest:
            raise ProgramError(f"{what}: size must be at most the {rest} bytes left, got {nbytes}")
        self._position += nbytes
        return self._content[self._position - nbytes : self._position]

    def finish(self) -> None:
        """Refuse bytes that nothing describes."""
        if self._position != len(self._content):
            raise ProgramError(f"payload: size must be {self._position} bytes, got {len(self._content)}")


def _build(manifest: dict[str, Any], content: bytes) -> Program:
    config = Config.from_dict(manifest["config"])
    count, width = manifest["instructions"], instruction_bytes(config)
    payload = _Payload(content)
    words = np.frombuffer(payload.take("words", count * width), np.uint8).reshape(count, width)
    tensor_of = np.frombuffer(payload.take("tensor_of", 4 * count), "<i4").astype(np.int32)
    source_of = np.frombuffer(payload.take("source_of", 4 * count), "<i4").astype(np.int32)
    tensors = tuple(_tensors(manifest["tensors"], payload))
    payload.finish()
    lines = tuple(manifest["source_lines"])
    return Program(config, manifest["name"], words, tensors, tensor_of, lines, source_of)


def _tensors(described: list[dict[str, Any]], payload: _Payload) -> Iterator[Tensor]:
    for entry in described:
        values = {name: entry[name] for name in ("name", "role", "dtype", "layout", "nbytes")}
        data = payload.take(f"tensor {values['name']}", values["nbytes"]) if entry["has_data"] else None
        yield Tensor(**values, shape=tuple(entry["shape"]), data=data)
