# SPDX-License-Identifier: Apache-2.0
"""The service `buffer.RemoteBuffer`: contiguous memory, its contents in streams.

Contents are in the memory as soon as they arrive: flush and invalidate have nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vdla.boards.virtual.memory import BoardMemory, Buffer, MemoryRefusal
from vdla.runtime.devices.pynq_messages import Message, messages

_CHUNK_BYTES = (4 << 20) - (64 << 10)  # under the client's limit of a message, 4 MiB
_VIRTUAL = 0x7F0000000000  # where the server's process would have mapped the memory


class BufferService:
    """The buffers of all clients."""

    name = "buffer.RemoteBuffer"

    def __init__(self, memory: BoardMemory) -> None:
        self._memory = memory
        self._messages = messages("buffer")

    def allocate(self, request: Message) -> Message:
        """A new buffer."""
        return self._messages.AllocateResponse(buffer_id=self._memory.allocate(request.size).identifier)

    def write(self, requests: Iterator[Message]) -> Message:
        """Set bytes of a buffer: message after message from its beginning, or each at its range."""
        position = 0
        for request in requests:
            buffer = self._memory.buffer(request.buffer_id)
            begin = request.start if request.start or request.end else position
            position = self._write(buffer, begin, request)
        return self._messages.BufferWriteResponse()

    def _write(self, buffer: Buffer, begin: int, request: Message) -> int:
        """Write a message's bytes from `begin` on; their end."""
        end = begin + len(request.data)
        if request.end and request.end != end:
            raise MemoryRefusal(f"buffer: end of a write must be {end}, got {request.end}")
        if not request.data or begin < 0 or end > buffer.nbytes:
            raise MemoryRefusal(
                f"buffer: write must lie in the {buffer.nbytes} bytes of the buffer, got {end - begin} at {begin}"
            )
        self._memory.contents(buffer)[begin:end] = np.frombuffer(request.data, np.uint8)
        return end

    def read(self, request: Message) -> Iterator[Message]:
        """The bytes of a buffer, or of a range."""
        buffer = self._memory.buffer(request.buffer_id)
        begin, end = request.start, request.end or buffer.nbytes
        if not 0 <= begin <= end <= buffer.nbytes:
            raise MemoryRefusal(
                f"buffer: read must lie in the {buffer.nbytes} bytes of the buffer, got {begin} to {end}"
            )
        for at in range(begin, end, _CHUNK_BYTES):
            current = self._memory.buffer(buffer.identifier)  # it may be freed meanwhile
            data = self._memory.contents(current)[at : min(at + _CHUNK_BYTES, end)].tobytes()
            yield self._messages.BufferReadResponse(data=data)

    def flush(self, request: Message) -> Message:
        """Make the processor's writes visible to the fabric."""
        self._memory.buffer(request.buffer_id)
        return self._messages.FlushResponse()

    def invalidate(self, request: Message) -> Message:
        """Make the fabric's writes visible to the processor."""
        self._memory.buffer(request.buffer_id)
        return self._messages.InvalidateResponse()

    def freebuffer(self, request: Message) -> Message:
        """Free a buffer."""
        self._memory.free(request.buffer_id)
        return self._messages.FreeBufferResponse()

    def physical_address(self, request: Message) -> Message:
        """The address at which the machine finds a buffer."""
        return self._messages.AddressResponse(address=self._memory.buffer(request.buffer_id).address)

    def virtual_address(self, request: Message) -> Message:
        """The address at which the server's process has a buffer: a number without a use."""
        return self._messages.AddressResponse(address=_VIRTUAL + self._memory.buffer(request.buffer_id).offset)
