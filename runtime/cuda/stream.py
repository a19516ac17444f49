"""Streams of a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_int32, c_uint64, c_void_p
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.cuda.array import allocate
from vdla.runtime.cuda.context import CudaContext, Owned
from vdla.runtime.cuda.errors import CudaDeviceError
from vdla.runtime.cuda.event import CudaEvent
from vdla.runtime.cuda.functions import STREAM_NON_BLOCKING
from vdla.runtime.cuda.module import CudaKernel
from vdla.runtime.cuda.staging import Staging
from vdla.runtime.grid import DeviceArray, Event
from vdla.runtime.native.arguments import storage_dtype

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
