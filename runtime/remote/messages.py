# SPDX-License-Identifier: Apache-2.0
"""The messages between client and server, as dataclasses; their fields are those of the JSON.

Decoding is strict: `receive` refuses a missing field, an unknown field, a wrong type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.json_fields import from_json, to_json
from vdla.runtime.remote.errors import CODES, REFUSED, RemoteError
from vdla.runtime.remote.framing import pack, unpack

VERSION = 1
"""The version of the protocol; a server refuses any other."""
SERVICE = "vdla.remote.Device"
T = TypeVar("T")

# --- sessions


@dataclass(frozen=True, slots=True)
class Hello:
    """The begin of a session, or with `token` its resumption; `fingerprint` may be empty: any."""

    version: int
    client: str
    fingerprint: str
    memory_bytes: int | None
    token: str | None


@dataclass(frozen=True, slots=True)
class Welcome:
    """An open session: its secret token, the machine, and the limits that a client keeps."""

    token: str
    device: str
    config: Mapping[str, Any]
    memory_bytes: int
    chunk_bytes: int
    grace_s: float


@dataclass(frozen=True, slots=True)
class Reserve:
    """Ask for the board alone: for so many seconds, no other session is opened."""

    session: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The end of a session that the client did not ask for."""

    reason: str


@dataclass(frozen=True, slots=True)
class Close:
    """The end of a session; everything that it holds is released."""

    session: str


# --- operations


@dataclass(frozen=True, slots=True)
class Allocate:
    """Zeroed memory; the value is its address."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class Release:
    """Free the block at an address."""

    address: int


@dataclass(frozen=True, slots=True)
class Clear:
    """Zero bytes of a block."""

    address: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class WriteBytes:
    """Copy the next `nbytes` of the message into a block."""

    address: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class WriteKnown:
    """Copy a constant, which the server holds under its SHA-256, into a block."""

    address: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Read:
    """Copy bytes of a block into the reply."""

    address: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """Run a program that the server holds under the SHA-256 of its file."""

    sha256: str
    addresses: Mapping[str, int]
    timeout_cycles: int | None


Operation = Allocate | Release | Clear | WriteBytes | WriteKnown | Read | Run


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations that run in order without another session's between them; at most one is a Run.

    `request` numbers the batches of a session; results up to `acknowledged` are forgotten.
    """

    session: str
    request: int
    acknowledged: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Await:
    """Ask again for the result of a batch."""

    session: str
    request: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Withdraw a batch: it leaves the queue, or the device is asked to stop."""

    session: str
    request: int


# --- content


@dataclass(frozen=True, slots=True)
class Offer:
    """Ask which of these contents the server lacks."""

    session: str
    hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lacking:
    """The contents to upload."""

    hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Upload:
    """The bytes from `offset` of a content of `total` bytes."""

    session: str
    sha256: str
    total: int
    offset: int


# --- replies


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed; `code` is one of CODES."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The statistics of a run; arrays of `instructions` times and waits follow the reads.

    `item_bytes` is the size of their numbers. `device_s` is the time in the device's `run`.
    """

    total_cycles: int
    counters: Mapping[str, Mapping[str, int]]
    instructions: int
    wait_columns: int
    item_bytes: int
    macs: int
    bytes_read: int
    bytes_written: int
    device_s: float


@dataclass(frozen=True, slots=True)
class BatchReply:
    """A value for each operation that was done: an address of Allocate, the bytes of Read, or 0."""

    values: tuple[int, ...]
    record: RunRecord | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Pending:
    """The batch has not ended yet; send Await. `ahead` batches of other sessions may run first."""

    ahead: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """Done; nothing to say."""


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Ask for a `BoardStatus`."""


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """An open session: who, what it holds, its batches.

    `connected` is 0 while the client is away and its session waits for it. For `reserved_s` seconds
    more, it has the board alone.
    """

    number: int
    client: str
    connected: int
    memory_bytes: int
    blocks: int
    queued: int
    running: int
    reserved_s: float


@dataclass(frozen=True, slots=True)
class BoardStatus:
    """What a server says of itself; memory is that of all sessions, power is by rail."""

    device: str
    config: str
    fingerprint: str
    clock_mhz: float
    sessions: int
    most_sessions: int
    queued: int
    running: int
    blocks: int
    memory_bytes: int
    most_memory_bytes: int
    session_memory_bytes: int
    cache_bytes: int
    cache_hits: int
    cache_misses: int
    runs: int
    reopened: int
    uptime_s: float
    last_error: str
    clients: tuple[ClientStatus, ...] = field(default_factory=tuple)
    power_w: Mapping[str, float] = field(default_factory=dict)


def send(message: Any, parts: Iterable[bytes | memoryview] = ()) -> bytes:  # noqa: ANN401  a message above
    """The frame of a message and the bytes behind it."""
    return pack(to_json(message), parts)


def receive(kind: type[T], frame: bytes, where: str) -> tuple[T, memoryview]:
    """The message in a frame, and the bytes behind it; a union of dataclasses is a kind, too.

    Raises:
        RemoteError: a frame that holds anything else, or a Failure.
    """
    header, data = unpack(frame or b"")  # gRPC gives None for a reply that was cut off
    if isinstance(header, dict) and header.get("kind") == Failure.__name__:
        failure = decode(Failure, header, where)
        raise RemoteError(failure.message, failure.code if failure.code in CODES else REFUSED)
    return decode(kind, header, where), data


def decode(kind: type[T], header: object, where: str) -> T:
    """The message of a header."""
    try:
        named = getattr(kind, "__name__", None)
        if named and isinstance(header, dict) and header.get("kind") != named:
            raise RemoteError(f"{where}: kind must be {named}, got {_short(header.get('kind'))}")
        return from_json(kind, header, where)
    except ArtifactError as error:
        raise RemoteError(str(error)) from None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
