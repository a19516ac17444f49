"""Page-locked memory of the host, through which arrays travel to a device while the host goes on.

A buffer is used again once the event behind its copy is reached, so a stream has few of them.
"""

from __future__ import annotations

from ctypes import c_void_p, memmove
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from vdla.runtime.cuda.context import CudaContext, Owned
from vdla.runtime.cuda.event import CudaEvent


@dataclass(frozen=True, slots=True)
class StagingBuffer:
    """Bytes that the driver does not move."""

    memory: Owned
    nbytes: int


@dataclass(slots=True)
class Staging:
    """The buffers of one stream: those of copies under way, with their events, and free ones."""

    context: CudaContext
    _busy: list[tuple[CudaEvent, StagingBuffer]] = field(default_factory=list)
    _free: list[StagingBuffer] = field(default_factory=list)

    def copy_of(self, array: NDArray[Any]) -> StagingBuffer:
        """A buffer that begins with the bytes of a contiguous array; `keep` it until it is read."""
        buffer = self._take(array.nbytes)
        memmove(buffer.memory.handle, array.ctypes.data, array.nbytes)
        return buffer

    def keep(self, buffer: StagingBuffer, event: CudaEvent) -> None:
        """Leaves a buffer to the device until an event is reached."""
        self._busy.append((event, buffer))

    def _take(self, nbytes: int) -> StagingBuffer:
        """The smallest free buffer of that size, else a new one in place of those too small."""
        self._collect()
        fitting = [buffer for buffer in self._free if buffer.nbytes >= nbytes]
        if not fitting:
            self._free.clear()
            return self._allocate(nbytes)
        found = min(fitting, key=lambda buffer: buffer.nbytes)
        self._free.remove(found)
        return found

    def _collect(self) -> None:
        """Frees the buffers whose event is reached; copies of a stream end in order."""
        while self._busy and self._busy[0][0].is_reached():
            self._free.append(self._busy.pop(0)[1])

    def _allocate(self, nbytes: int) -> StagingBuffer:
        rule = f"cuda: the host must have {nbytes} page-locked bytes for {self.context.name}"
        memory = Owned(self.context, rule, "cuMemHostAlloc", c_void_p(), nbytes, 0, release="cuMemFreeHost")
        return StagingBuffer(memory, nbytes)
