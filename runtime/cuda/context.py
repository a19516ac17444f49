"""The primary context of a device, and what lives in it.

A context is made current around each call and the previous one restored, so other libraries in the
process keep theirs. What lives in a context holds it, so a context is released last.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_uint64, c_void_p
from typing import Any
from weakref import finalize

from vdla.runtime.cuda.driver import CudaDriver
from vdla.runtime.cuda.errors import CudaDeviceError
from vdla.runtime.cuda.properties import CudaProperties


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
