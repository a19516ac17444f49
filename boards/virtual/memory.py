# SPDX-License-Identifier: Apache-2.0
"""The contiguous memory of a virtual board: buffers at physical addresses of its DRAM.

A buffer is whole pages, as the kernel hands them out; the machine reaches these and nothing else.
Identifiers are unique over all runs of a server: one from an earlier run names nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from vdla.boards.virtual.fabric import MemoryWindow
from vdla.runtime.devices.allocator import Allocator
from vdla.runtime.devices.device import ALIGNMENT, DeviceError
from vdla.support.arrays import Bytes
from vdla.support.errors import Error

BASE_ADDRESS = 0x16800000
"""Where the contiguous memory of PYNQ's image for the Z1 begins."""
DEFAULT_BYTES = 128 << 20
"""The contiguous memory of PYNQ's images, `cma=128M` on the kernel's command line."""
LEFT_OVER = 0xA5
"""The bytes of a new buffer."""
MOST_BUFFERS = 4096


class MemoryRefusal(Error, RuntimeError):
    """A request for memory that cannot be met; the message says why."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of `nbytes` at a physical address, and its place in the array."""

    identifier: str
    address: int
    nbytes: int
    offset: int


class BoardMemory:
    """`size` bytes of DRAM from `base`; `changed` is called with the windows after each change."""

    def __init__(self, size: int = DEFAULT_BYTES, base: int = BASE_ADDRESS) -> None:
        self._allocator = Allocator("virtual board", size)
        self.reserved = 0
        """Bytes that are taken by others, as on a full board."""
        self._run = secrets.token_hex(4)
        self._count = 0
        self._base = base
        self._lock = Lock()
        self._change = Lock()  # of the buffers and of the windows, in one order
        self._buffers: dict[str, Buffer] = {}
        self.changed: Callable[[Sequence[MemoryWindow]], None] = lambda windows: None

    @property
    def data(self) -> Bytes:
        """The whole memory."""
        return self._allocator.data

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers that are allocated."""
        with self._lock:
            return tuple(self._buffers.values())

    @property
    def free_bytes(self) -> int:
        """Bytes in no buffer; the largest gap may be smaller."""
        return max(0, len(self.data) - self.reserved - sum(_pages(buffer.nbytes) for buffer in self.buffers))

    def windows(self) -> tuple[MemoryWindow, ...]:
        """The pages of all buffers."""
        return tuple(MemoryWindow(b.address, _pages(b.nbytes), b.offset) for b in self.buffers)

    def allocate(self, nbytes: int) -> Buffer:
        """A buffer: first fit, on a page; MemoryRefusal where there is none. Its bytes are those of
        nobody, as a board does not zero what others left.
        """
        with self._change:
            with self._lock:
                buffer = self._new(nbytes)
                self._buffers[buffer.identifier] = buffer
            self.changed(self.windows())
        return buffer

    def _new(self, nbytes: int) -> Buffer:
        if nbytes < 1:
            raise MemoryRefusal(f"contiguous memory: size of a buffer must be at least 1, got {nbytes}")
        if len(self._buffers) >= MOST_BUFFERS:
            raise MemoryRefusal(f"contiguous memory: buffers must be at most {MOST_BUFFERS}, free some")
        free = len(self.data) - self.reserved - sum(_pages(buffer.nbytes) for buffer in self._buffers.values())
        try:
            offset = self._allocator.allocate(_pages(nbytes)) if _pages(nbytes) <= free else None
        except DeviceError:
            offset = None
        if offset is None:
            raise MemoryRefusal(
                f"contiguous memory: cannot allocate {nbytes} bytes, {max(0, free)} of {len(self.data)} are free; "
                "free buffers or raise cma= on the kernel's command line"
            )
        self._allocator.data[offset : offset + _pages(nbytes)] = LEFT_OVER
        self._count += 1
        return Buffer(f"{self._run}-{self._count}", self._base + offset, nbytes, offset)

    def buffer(self, identifier: str) -> Buffer:
        """A buffer by its identifier; MemoryRefusal where it is not allocated."""
        with self._lock:
            return self._known(identifier)

    def _known(self, identifier: str) -> Buffer:
        buffer = self._buffers.get(identifier)
        if buffer is None:
            raise MemoryRefusal(f"contiguous memory: buffer must be allocated, got {identifier[:40]!r}")
        return buffer

    def free(self, identifier: str) -> None:
        """Free a buffer, once the machine reaches it no more; MemoryRefusal where there is none."""
        with self._change:
            with self._lock:
                buffer = self._known(identifier)
                del self._buffers[identifier]
            self.changed(self.windows())
            self._allocator.free(buffer.offset)

    def contents(self, buffer: Buffer) -> Bytes:
        """A view of a buffer's bytes."""
        return self.data[buffer.offset : buffer.offset + buffer.nbytes]


def _pages(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
