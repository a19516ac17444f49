# SPDX-License-Identifier: Apache-2.0
"""The entry of a device in the note on its board: written when it opens, runs and closes.

A note that cannot be written is no error: it only tells others who uses the board. Where the
connection is lost meanwhile, the next call to the board says so.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from vdla.hardware.config import Config
from vdla.runtime.devices.board_link import BoardLink
from vdla.runtime.devices.board_note import PATH, UPTIME, BoardNote, NotedBitstream, NotedClient, uptime_s
from vdla.runtime.devices.client_name import client_name
from vdla.runtime.devices.device import DeviceError

_AGAIN_S = 5.0
"""Seconds after which a run writes the entry again."""
IMAGE = Path("/proc/device-tree/chosen/pynq_board")
"""What a board with an image of PYNQ has."""


class NoteFiles(Protocol):
    """The files of a board."""

    def read(self, path: str) -> bytes:
        """The content of a file; b"" where there is none."""

    def write(self, path: str, content: bytes) -> None:
        """Replace a file."""


class RemoteFiles:
    """The files of a board that PYNQ.remote serves; `device` is PYNQ's."""

    def __init__(self, device: Any) -> None:  # noqa: ANN401  of PYNQ
        self._device = device

    def read(self, path: str) -> bytes:
        """The content of a file; b"" where there is none."""
        return bytes(self._device.read_file(path)) if self._device.exists_file(path).exists else b""

    def write(self, path: str, content: bytes) -> None:
        """Replace a file."""
        self._device.write_file(path, content)


class LocalFiles:
    """The files of the board on which this runs."""

    def read(self, path: str) -> bytes:
        """The content of a file; b"" where there is none."""
        file = Path(path)
        return file.read_bytes() if file.exists() else b""

    def write(self, path: str, content: bytes) -> None:
        """Replace a file."""
        Path(path).write_bytes(content)


def note_files(device: Any, *, remote: bool) -> NoteFiles | None:  # noqa: ANN401  of PYNQ
    """The files of the board that PYNQ uses; None where that is not an image of PYNQ."""
    if remote:
        return RemoteFiles(device)
    return LocalFiles() if IMAGE.exists() else None


class ClientEntry:
    """The entry of one device with the machine `config` of the bitstream `file`."""

    def __init__(self, link: BoardLink, files: NoteFiles | None, config: Config, file: str) -> None:
        self._link, self._files = link, files
        self._client = NotedClient(
            key=secrets.token_hex(8),
            client=f"{client_name()}, process {os.getpid()}",
            machine=config.name,
            file=file,
            memory_bytes=0,
            since_s=0.0,
            seen_s=0.0,
        )
        self._fingerprint = config.fingerprint
        self._offset_s = 0.0  # from this process's clock to the board's
        self._written_s = float("-inf")  # by a run

    def open(self, *, loaded: bool) -> None:
        """Write the entry, and where the device has `loaded` it, the bitstream."""

        def write(files: NoteFiles) -> None:
            now = uptime_s(files.read(UPTIME)) or 0.0
            self._offset_s = now - time.monotonic()
            self._client = replace(self._client, since_s=now)
            bitstream = self._bitstream() if loaded else None
            self._change(files, lambda old: self._with_own(replace(old, bitstream=bitstream or old.bitstream)))

        self._try(write)

    def clocked(self, mhz: float | None) -> None:
        """Write the clock of the bitstream that is loaded."""

        def with_clock(note: BoardNote) -> BoardNote:
            last = note.bitstream
            return note if last is None else replace(note, bitstream=replace(last, clock_mhz=mhz or 0.0))

        self._try(lambda files: self._change(files, with_clock))

    def run(self, memory_bytes: int) -> None:
        """Write the entry again, unless that was seconds ago only."""
        if time.monotonic() - self._written_s >= _AGAIN_S:
            self._written_s = time.monotonic()
            self._client = replace(self._client, memory_bytes=memory_bytes)
            self._try(lambda files: self._change(files, self._with_own))

    def close(self) -> None:
        """Remove the entry, where there is a connection."""
        self._try(lambda files: self._change(files, lambda old: old.without(self._client.key)))
        self._files = None

    def others(self) -> list[str]:
        """The names of other clients in the note."""
        names: list[str] = []

        def read(files: NoteFiles) -> None:
            note = BoardNote.parse(files.read(PATH)).without(self._client.key)
            names.extend(client.client for client in note.clients)

        self._try(read)
        return names

    def _with_own(self, note: BoardNote) -> BoardNote:
        self._client = replace(self._client, seen_s=time.monotonic() + self._offset_s)
        return note.with_client(self._client)

    def _bitstream(self) -> NotedBitstream:
        client = self._client
        return NotedBitstream(
            file=client.file,
            machine=client.machine,
            fingerprint=self._fingerprint,
            client=client.client,
            at_s=client.since_s,
            clock_mhz=0.0,
        )

    def _change(self, files: NoteFiles, change: Callable[[BoardNote], BoardNote]) -> None:
        files.write(PATH, change(BoardNote.parse(files.read(PATH))).render())

    def _try(self, action: Callable[[NoteFiles], None]) -> None:
        """Use the files of a board that has them; one that refuses is not asked again."""
        if self._files is None:
            return
        try:
            with self._link.calls("note who uses it"):
                action(self._files)
        except DeviceError:
            self._files = None
