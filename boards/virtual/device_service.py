# SPDX-License-Identifier: Apache-2.0
"""The service `remote_device.RemoteDevice`: files of the board."""

from __future__ import annotations

from collections.abc import Iterator

from vdla.boards.virtual.board_files import MOST_BYTES, BoardFiles, FileRefusal
from vdla.runtime.devices.pynq_messages import Message, messages

_CHUNK_BYTES = 1 << 10  # as on a board


class DeviceService:
    """Reads and writes files; a write to the FPGA manager configures the fabric."""

    name = "remote_device.RemoteDevice"

    def __init__(self, files: BoardFiles) -> None:
        self._files = files
        self._messages = messages("remote_device")

    def existsfile(self, request: Message) -> Message:
        """Whether a file need not be uploaded."""
        return self._messages.ExistsFileResponse(exists=self._files.exists(request.file_path))

    def readfile(self, request: Message) -> Iterator[Message]:
        """The content of a file."""
        content = self._files.read(request.file_path)
        for at in range(0, len(content), _CHUNK_BYTES):
            yield self._messages.ReadFileResponse(data=content[at : at + _CHUNK_BYTES])

    def writefile(self, requests: Iterator[Message]) -> Message:
        """Replace the content of a file."""
        path, parts, total = None, [], 0
        for request in requests:
            path = request.file_path if path is None else path
            total += len(request.data)
            if request.file_path != path:
                raise FileRefusal(f"board file: path must be one in a stream, got {request.file_path[:80]!r}")
            if not request.data or total > MOST_BYTES:
                raise FileRefusal(f"board file: content must have from 1 to {MOST_BYTES} bytes, got {total}")
            parts.append(request.data)
        if path is not None:
            self._files.write(path, b"".join(parts))
        return self._messages.WriteFileResponse()

    def set_bitstream_attrs(self, request: Message) -> Message:
        """Announce a bitstream; a partial one is refused when it is written."""
        return self._messages.SetBitstreamAttrsResponse(status=True)
