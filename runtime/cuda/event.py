"""Events in the streams of a CUDA device."""

from __future__ import annotations

from ctypes import c_float, c_void_p
from typing import cast

from vdla.runtime.cuda.context import CudaContext, Owned
from vdla.runtime.grid import Event

_MILLISECOND = 1e-3


class CudaEvent:
    """A point in the work of a stream, reached when the work before it is done."""

    def __init__(self, context: CudaContext, stream: int) -> None:
        self._context, self._rule = context, f"cuda: {context.name} must record an event"
        self._owned = Owned(context, self._rule, "cuEventCreate", c_void_p(), 0, release="cuEventDestroy_v2")
        context.call(self._rule, "cuEventRecord", self.handle, stream)

    @property
    def handle(self) -> int:
        """The driver's."""
        return self._owned.handle

    def is_reached(self) -> bool:
        """Whether the device is past it; does not wait."""
        return self._context.is_done(self._rule, "cuEventQuery", self.handle)

    def seconds_since(self, earlier: Event) -> float:
        """The time between two events of one stream, as the device measured it; waits for both."""
        start = cast(CudaEvent, earlier)
        rule, milliseconds = f"cuda: {self._context.name} must reach an event", c_float()
        for event in (start, self):
            self._context.call(rule, "cuEventSynchronize", event.handle)
        self._context.call(rule, "cuEventElapsedTime", milliseconds, start.handle, self.handle)
        return milliseconds.value * _MILLISECOND
