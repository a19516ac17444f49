# SPDX-License-Identifier: Apache-2.0
"""The state of a board that runs PYNQ.remote: what it has, and who uses it.

Bitstream and clients are those of the note that devices write (`runtime/devices/board_note.py`):
PYNQ itself says neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.runtime.devices.board_note import BoardNote


@dataclass(frozen=True, slots=True)
class PynqBitstream:
    """The bitstream that VDLA loaded last, `ago_s` seconds ago; the file has the content's hash."""

    file: str
    machine: str
    fingerprint: str
    client: str
    ago_s: float


@dataclass(frozen=True, slots=True)
class PynqClient:
    """A device that is open since `since_s` seconds ago, as it wrote `seen_s` seconds ago."""

    client: str
    machine: str
    file: str
    memory_bytes: int
    since_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class PynqStatus:
    """What a board says of itself; None is what it does not say. `fabric` is the state of the FPGA
    manager, `memory_bytes` and `free_bytes` are of the contiguous memory.
    """

    board: str
    uptime_s: float | None
    fabric: str | None
    clock_mhz: float | None
    memory_bytes: int | None
    free_bytes: int | None
    bitstream: PynqBitstream | None
    clients: tuple[PynqClient, ...]


def bitstream_of(note: BoardNote, now_s: float) -> PynqBitstream | None:
    """The bitstream of a note."""
    last = note.bitstream
    if last is None:
        return None
    return PynqBitstream(last.file, last.machine, last.fingerprint, last.client, max(0.0, now_s - last.at_s))


def clients_of(note: BoardNote, now_s: float) -> tuple[PynqClient, ...]:
    """The clients of a note."""
    return tuple(
        PynqClient(
            client=noted.client,
            machine=noted.machine,
            file=noted.file,
            memory_bytes=noted.memory_bytes,
            since_s=max(0.0, now_s - noted.since_s),
            seen_s=max(0.0, now_s - noted.seen_s),
        )
        for noted in note.clients
    )
