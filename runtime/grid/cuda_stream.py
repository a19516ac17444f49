# SPDX-License-Identifier: Apache-2.0
"""Streams of a CUDA device, and page-locked memory of the host, through which arrays are copied
while the host goes on.

A buffer is used again once the event behind its copy is reached, so a stream has few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_int32, c_uint64, c_void_p, memmove
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.grid.cuda_context import CudaContext, CudaEvent, Owned, allocate
from vdla.runtime.grid.cuda_driver import STREAM_NON_BLOCKING, CudaDeviceError
from vdla.runtime.grid.cuda_module import CudaKernel
from vdla.runtime.grid.protocol import DeviceArray, Event
from vdla.runtime.native.arguments import storage_dtype


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
        result = min(fitting, key=lambda buffer: buffer.nbytes)
        self._free.remove(result)
        return result

    def _collect(self) -> None:
        """Frees the buffers whose event is reached; copies of a stream end in order."""
        while self._busy and self._busy[0][0].is_reached():
            self._free.append(self._busy.pop(0)[1])

    def _allocate(self, nbytes: int) -> StagingBuffer:
        rule = f"cuda: the host must have {nbytes} page-locked bytes for {self.context.name}"
        memory = Owned(self.context, rule, "cuMemHostAlloc", c_void_p(), nbytes, 0, release="cuMemFreeHost")
        return StagingBuffer(memory, nbytes)


Array = NDArray[Any]


class CudaStream:
    """Work for a device, done in order."""

    def __init__(self, context: CudaContext) -> None:
        self._context, self._staging = context, Staging(context)
        arguments = f"cuda: {context.name} must open a stream", "cuStreamCreate", c_void_p(), STREAM_NON_BLOCKING
        self._owned = Owned(context, *arguments, release="cuStreamDestroy_v2")
        self._copying = f"cuda: {context.name} must copy an array"

    def upload(self, array: Array, into: DeviceArray | None = None) -> DeviceArray:
        """Copy a contiguous NumPy array to the device, into an array of that size or a new one.

        The host goes on while the device copies, from page-locked memory; the NumPy array may be
        changed at once.
        """
        target = allocate(self._context, array.shape, array.dtype.name) if into is None else into
        _check_size(target, array)
        if array.nbytes:
            staged = self._staging.copy_of(array)
            arguments = target.handle, staged.memory.handle, array.nbytes, self._owned.handle
            self._context.call(self._copying, "cuMemcpyHtoDAsync_v2", *arguments)
            self._staging.keep(staged, self.record())
        return target

    def download(self, array: DeviceArray, into: Array | None = None) -> Array:
        """Copy to a contiguous NumPy array of the size, or a new one; waits for the work before."""
        target = np.empty(array.shape, storage_dtype(array.dtype)) if into is None else into
        _check_size(array, target)
        if target.nbytes:
            arguments = target.ctypes.data, array.handle, array.nbytes, self._owned.handle
            self._context.call(self._copying, "cuMemcpyDtoHAsync_v2", *arguments)
        self.synchronize()
        return target

    def launch(self, kernel: CudaKernel, groups: Sequence[int], arguments: Sequence[DeviceArray | int]) -> None:
        """Start a kernel on that many groups along x, y, z; arrays come before extents.

        Raises:
            CudaDeviceError: more groups than the device has along an axis, or the launch fails.
        """
        if 0 in groups:
            return  # which the driver refuses
        self._context.properties.check_groups(kernel.name, groups)
        values = [c_int32(a) if isinstance(a, int) else c_uint64(a.handle) for a in arguments]
        parameters = (c_void_p * max(len(values), 1))(*map(addressof, values))
        grid = *groups, *kernel.threads, kernel.shared_bytes
        rule = f"{kernel.name}: {self._context.name} must run it"
        self._context.call(rule, "cuLaunchKernel", kernel.handle, *grid, self._owned.handle, parameters, None)

    def record(self) -> CudaEvent:
        """The point behind all work so far."""
        return CudaEvent(self._context, self._owned.handle)

    def wait(self, event: Event) -> None:
        """Have the work that follows begin after an event of another stream."""
        rule = f"cuda: {self._context.name} must wait for an event"
        self._context.call(rule, "cuStreamWaitEvent", self._owned.handle, cast(CudaEvent, event).handle, 0)

    def synchronize(self) -> None:
        """Wait for all work so far."""
        rule = f"cuda: {self._context.name} must finish its work"
        self._context.call(rule, "cuStreamSynchronize", self._owned.handle)


def _check_size(array: DeviceArray, other: Array) -> None:
    """Refuse a copy beyond the end of either array."""
    if array.nbytes != other.nbytes:
        raise CudaDeviceError(f"cuda: a copy must be between arrays of {array.nbytes} bytes, got {other.nbytes}")
