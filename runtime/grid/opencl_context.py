# SPDX-License-Identifier: Apache-2.0
"""OpenCL devices as their drivers know them: memory, abilities, and the programs built for them,
each once in a process.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any

from vdla.compiler.abi import element_bytes
from vdla.runtime.grid.protocol import GridDeviceError


class OpenClDeviceError(GridDeviceError):
    """No OpenCL device, or a kernel that the device cannot build or run."""


INSTALL = 'pip install "vdla[opencl]"'


def pyopencl() -> ModuleType:
    """The module pyopencl.

    Raises:
        OpenClDeviceError: it is not installed.
    """
    try:
        import pyopencl as module
    except ImportError as error:
        raise OpenClDeviceError(f"opencl: pyopencl must be installed, got {error}; {INSTALL}") from None
    return module


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).strip().split("\n")[0]


@dataclass(frozen=True, slots=True, eq=False)
class OpenClArray:
    """Elements in a buffer, which the driver keeps until the work that reads it is done."""

    handle: Any
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * element_bytes(self.dtype)

    def view(self, offset: int, shape: tuple[int, ...], dtype: str) -> OpenClArray:
        """An array in this one's memory, `offset` bytes from its start."""
        size = max(prod(shape) * element_bytes(dtype), 1)
        return OpenClArray(self.handle.get_sub_region(offset, size), shape, dtype)


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


_PROGRAMS = 256
_OPTIONS = ("-cl-std=CL1.2",)
_AS_IT_STANDS = "-cl-opt-disable"
_EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"


@lru_cache(maxsize=_PROGRAMS)
def build_program(device: OpenClContext, source: str) -> Any:  # noqa: ANN401  a pyopencl.Program
    """The program of a source.

    Raises:
        OpenClDeviceError: the device's compiler refuses it, or the device lacks a type.
    """
    cl = pyopencl()
    if re.search(r"\bdouble\d*\b", source) and not device.has("cl_khr_fp64"):
        raise OpenClDeviceError(f"opencl: the device must have cl_khr_fp64 for float64, got {device.name}")
    options = [*_OPTIONS, *(() if device.optimises else (_AS_IT_STANDS,))]
    if device.handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        options.append(_EXACT_DIVISION)
    program = cl.Program(device.context, source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            return program.build(options)
    except cl.RuntimeError as error:
        raise OpenClDeviceError(f"opencl: {device.name} must build the source, got {_reason(str(error))}") from None


def _reason(log: str) -> str:
    """The first error in a build log, else its first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "no log")
