# SPDX-License-Identifier: Apache-2.0
"""An in-order queue of an OpenCL device as a stream, and the events in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.grid.opencl_context import OpenClContext, device_errors, pyopencl
from vdla.runtime.grid.protocol import DeviceArray, Event
from vdla.runtime.native.arguments import storage_dtype

Array = NDArray[Any]
_NANOSECOND = 1e-9


@dataclass(frozen=True, slots=True)
class OpenClKernel:
    """A kernel of a program and the threads of its groups."""

    handle: Any
    name: str
    threads: tuple[int, ...]


@dataclass(slots=True)
class OpenClEvent:
    """A marker in a queue; `following` is the first kernel behind it.

    Time is counted from the start of that kernel: before it, a device that is idle waits for the
    host.
    """

    marker: Any
    following: Any = None

    def seconds_since(self, earlier: Event) -> float:
        """The time between two events of one stream, as the device measured it; waits for both."""
        assert isinstance(earlier, OpenClEvent)
        with device_errors("opencl: an event must be reached"):
            self.marker.wait()
            later = earlier.following
            start = earlier.marker.profile.end if later is None else later.profile.start
            return float(max(self.marker.profile.end - start, 0)) * _NANOSECOND


@dataclass(slots=True)
class OpenClStream:
    """Work for a device, done in order by one queue."""

    device: OpenClContext
    queue: Any
    _open: list[OpenClEvent] = field(default_factory=list)  # events behind which no kernel was started

    def upload(self, array: Array, into: DeviceArray | None = None) -> DeviceArray:
        """Copy a contiguous NumPy array to the device, into an array of that size or a new one."""
        target: DeviceArray = self.device.empty(array.shape, array.dtype.name) if into is None else into
        if array.size:
            with device_errors(f"opencl: {self.device.name} must copy an array"):
                pyopencl().enqueue_copy(self.queue, target.handle, _bytes(array))
        return target

    def download(self, array: DeviceArray, into: Array | None = None) -> Array:
        """Copy to a contiguous NumPy array of the size, or a new one; waits for the work before."""
        target = np.empty(array.shape, storage_dtype(array.dtype)) if into is None else into
        if target.size:
            with device_errors(f"opencl: {self.device.name} must copy an array"):
                pyopencl().enqueue_copy(self.queue, _bytes(target), array.handle)
        return target

    def launch(self, kernel: OpenClKernel, groups: Sequence[int], arguments: Sequence[DeviceArray | int]) -> None:
        """Start a kernel on that many groups along x, y, z; arrays come before extents."""
        total = [count * threads for count, threads in zip(groups, kernel.threads, strict=True)]
        with device_errors(f"{kernel.name}: {self.device.name} must run it"):
            kernel.handle.set_args(*(np.int32(a) if isinstance(a, int) else a.handle for a in arguments))
            command = pyopencl().enqueue_nd_range_kernel(self.queue, kernel.handle, total, list(kernel.threads))
        for event in self._open:
            event.following = command
        self._open.clear()

    def record(self) -> OpenClEvent:
        """The point behind all work so far."""
        with device_errors(f"opencl: {self.device.name} must record an event"):
            event = OpenClEvent(pyopencl().enqueue_marker(self.queue))
            self.queue.flush()
        self._open.append(event)
        return event

    def wait(self, event: Event) -> None:
        """Have the work that follows begin after an event of another stream."""
        assert isinstance(event, OpenClEvent)
        with device_errors(f"opencl: {self.device.name} must wait for an event"):
            pyopencl().enqueue_barrier(self.queue, wait_for=[event.marker])

    def synchronize(self) -> None:
        """Wait for all work so far."""
        with device_errors(f"opencl: {self.device.name} must finish its work"):
            self.queue.finish()


def _bytes(array: Array) -> Array:
    """The memory of a contiguous array as bytes; pyopencl does not know every dtype."""
    return array.reshape(-1).view(np.uint8)
