# SPDX-License-Identifier: Apache-2.0
"""The primary context of a CUDA device, and what lives in it: arrays, events.

A context is made current around each call and the previous one restored, so other libraries in the
process keep theirs. What lives in a context holds it, so a context is released last.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_float, c_uint64, c_void_p
from dataclasses import dataclass
from math import prod
from typing import Any, cast
from weakref import finalize

from vdla.compiler.abi import element_bytes
from vdla.runtime.grid.cuda_driver import CudaDeviceError, CudaDriver, CudaProperties
from vdla.runtime.grid.protocol import Event


class CudaContext:
    """The context that all libraries of a process share on one device."""

    def __init__(self, driver: CudaDriver, properties: CudaProperties) -> None:
        self.driver, self.properties = driver, properties
        handle = c_void_p()
        rule = f"cuda: {properties.name} must open a context"
        driver.call(rule, "cuDevicePrimaryCtxRetain", handle, properties.handle)
        self._handle = handle.value
        finalize(self, _release, driver.call, ("cuDevicePrimaryCtxRelease_v2", properties.handle))

    @property
    def name(self) -> str:
        """The name of the device."""
        return self.properties.name

    @contextmanager
    def current(self) -> Iterator[None]:
        """The context made current in this thread."""
        self.driver.call(f"cuda: {self.name} must make its context current", "cuCtxPushCurrent_v2", self._handle)
        try:
            yield
        finally:
            self.driver.call(f"cuda: {self.name} must leave its context", "cuCtxPopCurrent_v2", c_void_p())

    def call(self, rule: str, name: str, *arguments: Any) -> None:  # noqa: ANN401  of C
        """Call a function of the driver in this context."""
        with self.current():
            self.driver.call(rule, name, *arguments)

    def is_done(self, rule: str, name: str, *arguments: Any) -> bool:  # noqa: ANN401
        """Call a function of the driver that asks for a state; whether the work is done."""
        with self.current():
            return self.driver.is_done(rule, name, *arguments)


class Owned:
    """Something in a context, made by a function of the driver, released after its last reference.

    The function writes the handle to its first argument. With `synchronize` the device is left to
    finish its work before the release.
    """

    def __init__(
        self,
        context: CudaContext,
        rule: str,
        make: str,
        out: c_void_p | c_uint64,
        *arguments: Any,  # noqa: ANN401  of C
        release: str,
        synchronize: bool = False,
    ) -> None:
        before = [("cuCtxSynchronize",)] if synchronize else []
        with context.current():
            context.driver.call(rule, make, out, *arguments)
            self.handle: int = out.value or 0
            finalize(self, _release, context.call, *before, (release, self.handle))


def _release(call: Callable[..., None], *steps: tuple[Any, ...]) -> None:
    """Release something; a failure, often of a kernel before, is a warning: nobody can catch it."""
    for function, *arguments in steps:
        try:
            call("cuda: a resource must be released", function, *arguments)
        except CudaDeviceError as error:
            warnings.warn(str(error), ResourceWarning, stacklevel=2)


@dataclass(frozen=True, slots=True, eq=False)
class CudaArray:
    """Elements in memory that is freed after its last array; `handle` is the address of the first.

    Freeing waits for the kernels and copies that may use the memory, so none outlives it.
    """

    memory: Owned
    handle: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * element_bytes(self.dtype)

    def view(self, offset: int, shape: tuple[int, ...], dtype: str) -> CudaArray:
        """An array in this one's memory, `offset` bytes from its start.

        Raises:
            CudaDeviceError: it does not lie within.
        """
        view = CudaArray(self.memory, self.handle + offset, shape, dtype)
        if offset < 0 or offset + view.nbytes > self.nbytes:
            end = offset + view.nbytes
            raise CudaDeviceError(f"cuda: a view must lie within {self.nbytes} bytes, got {offset} to {end}")
        return view


def allocate(context: CudaContext, shape: tuple[int, ...], dtype: str) -> CudaArray:
    """An array of arbitrary content; one without elements has an address too.

    Raises:
        CudaDeviceError: the device has too little memory.
    """
    nbytes = max(prod(shape) * element_bytes(dtype), 1)
    rule = f"cuda: {context.name} must have {nbytes} bytes"
    memory = Owned(context, rule, "cuMemAlloc_v2", c_uint64(), nbytes, release="cuMemFree_v2")
    return CudaArray(memory, memory.handle, tuple(shape), dtype)


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
