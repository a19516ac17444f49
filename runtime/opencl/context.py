"""A device as its driver knows it: memory and abilities, without a queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from vdla.compiler.abi import element_bytes
from vdla.runtime.opencl.array import OpenClArray
from vdla.runtime.opencl.errors import OpenClDeviceError
from vdla.runtime.opencl.pyopencl_module import first_line, pyopencl


@dataclass(frozen=True, slots=True)
class OpenClContext:
    """A device of a platform, and the context in which its memory lies.

    Without `optimises`, its compiler translates kernels as they stand, which shows whether a wrong
    result is its own.
    """

    platform: str
    name: str
    handle: Any
    context: Any
    optimises: bool = field(default=True, kw_only=True)

    @property
    def alignment(self) -> int:
        """Views of arrays begin at multiples of this many bytes."""
        return int(self.handle.mem_base_addr_align) // 8

    def empty(self, shape: tuple[int, ...], dtype: str) -> OpenClArray:
        """An array of arbitrary content."""
        cl, nbytes = pyopencl(), max(prod(shape) * element_bytes(dtype), 1)
        with device_errors(f"opencl: {self.name} must have {nbytes} bytes"):
            return OpenClArray(cl.Buffer(self.context, cl.mem_flags.READ_WRITE, size=nbytes), shape, dtype)

    def has(self, extension: str) -> bool:
        """Whether the device has an extension, such as cl_khr_fp64."""
        return extension in self.handle.extensions.split()


@contextmanager
def device_errors(rule: str) -> Iterator[None]:
    """Errors of the driver as OpenClDeviceErrors: `rule`, then the first line of what it says."""
    cl = pyopencl()
    try:
        yield
    except (cl.MemoryError, cl.RuntimeError, cl.LogicError) as error:
        raise OpenClDeviceError(f"{rule}, got {first_line(error)}") from None
