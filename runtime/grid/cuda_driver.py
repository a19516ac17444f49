# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver as a library: its functions called by name, each with its result checked, and
what it says of a device.

Names and numbers are those of cuda.h. A name ends in `_v2` where the driver keeps an older function
of the plain name; every function returns a CUresult, 0 for success.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ctypes import CDLL, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p, create_string_buffer
from ctypes import POINTER as _pointer
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

from vdla.compiler.target import GridLimits
from vdla.runtime.grid.protocol import GridDeviceError


class CudaDeviceError(GridDeviceError):
    """No CUDA device, or a kernel that the device cannot load or run."""


_HANDLE = c_void_p  # of a context, module, function, stream or event
_ADDRESS = c_uint64  # in the memory of a device
_OUT_HANDLE = _pointer(c_void_p)
_OUT_INT = _pointer(c_int)

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuGetErrorName": (c_int, _pointer(c_char_p)),
    "cuGetErrorString": (c_int, _pointer(c_char_p)),
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_OUT_INT,),
    "cuDeviceGetCount": (_OUT_INT,),
    "cuDeviceGet": (_OUT_INT, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_OUT_INT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_OUT_HANDLE, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxPushCurrent_v2": (_HANDLE,),
    "cuCtxPopCurrent_v2": (_OUT_HANDLE,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_OUT_HANDLE, c_char_p, c_uint, _OUT_INT, _OUT_HANDLE),
    "cuModuleGetFunction": (_OUT_HANDLE, _HANDLE, c_char_p),
    "cuModuleUnload": (_HANDLE,),
    "cuFuncGetAttribute": (_OUT_INT, c_int, _HANDLE),
    "cuFuncSetAttribute": (_HANDLE, c_int, c_int),
    "cuLaunchKernel": (_HANDLE, *[c_uint] * 7, _HANDLE, _OUT_HANDLE, _OUT_HANDLE),
    "cuMemAlloc_v2": (_pointer(c_uint64), c_size_t),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemHostAlloc": (_OUT_HANDLE, c_size_t, c_uint),
    "cuMemFreeHost": (_HANDLE,),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, c_void_p, c_size_t, _HANDLE),
    "cuMemcpyDtoHAsync_v2": (c_void_p, _ADDRESS, c_size_t, _HANDLE),
    "cuStreamCreate": (_OUT_HANDLE, c_uint),
    "cuStreamSynchronize": (_HANDLE,),
    "cuStreamWaitEvent": (_HANDLE, _HANDLE, c_uint),
    "cuStreamDestroy_v2": (_HANDLE,),
    "cuEventCreate": (_OUT_HANDLE, c_uint),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventQuery": (_HANDLE,),
    "cuEventSynchronize": (_HANDLE,),
    "cuEventElapsedTime": (_pointer(c_float), _HANDLE, _HANDLE),
    "cuEventDestroy_v2": (_HANDLE,),
}
"""The types of the arguments by function."""

SUCCESS = 0
NOT_READY = 600
STREAM_NON_BLOCKING = 1
"""A stream that does not wait for the stream of programs that use none."""


class DeviceAttribute(IntEnum):
    """What cuDeviceGetAttribute tells."""

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    WARP_SIZE = 10
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


class FunctionAttribute(IntEnum):
    """What cuFuncGetAttribute tells and cuFuncSetAttribute sets."""

    MAX_THREADS_PER_BLOCK = 0
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class JitOption(IntEnum):
    """What cuModuleLoadDataEx takes."""

    ERROR_LOG_BUFFER = 5
    ERROR_LOG_BUFFER_SIZE_BYTES = 6


LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class CudaDriver:
    """The functions of the library at `path`, initialised."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            library = CDLL(path)
        except OSError:
            raise CudaDeviceError(f"cuda: NVIDIA's driver must be installed, got no {path}") from None
        self._functions = {name: _declared(library, name) for name in FUNCTIONS}
        self.call("cuda: the driver must start", "cuInit", 0)

    def call(self, rule: str, name: str, *arguments: Any) -> None:  # noqa: ANN401  of C
        """Call a function.

        Raises:
            CudaDeviceError: it does not succeed; `rule` says where and what it was for.
        """
        self._check(rule, name, self._functions[name](*arguments))

    def is_done(self, rule: str, name: str, *arguments: Any) -> bool:  # noqa: ANN401
        """Call a function that asks for a state; whether the work is done.

        Raises:
            CudaDeviceError: as `call`.
        """
        code = self._functions[name](*arguments)
        if code != NOT_READY:
            self._check(rule, name, code)
        return bool(code == SUCCESS)

    def _check(self, rule: str, name: str, code: int) -> None:
        if code != SUCCESS:
            raise CudaDeviceError(f"{rule}, got {self._described(code)} from {name.removesuffix('_v2')}")

    def _described(self, code: int) -> str:
        """The name and the text of an error."""
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            if self._functions[function](code, text) != SUCCESS or text.value is None:
                return f"error {code}"
            texts.append(text.value.decode())
        return f"{texts[0]} ({texts[1]})"


@cache
def cuda_driver() -> CudaDriver:
    """The driver of this machine, loaded once.

    Raises:
        CudaDeviceError: no driver is installed, or it does not start, as on a machine without a
        device.
    """
    return CudaDriver()


def _declared(library: CDLL, name: str) -> Any:  # noqa: ANN401  a function of C
    """A function with its types."""
    try:
        function = library[name]
    except AttributeError:
        raise CudaDeviceError(f"cuda: the driver must have {name}, got an older one; install a newer driver") from None
    function.argtypes, function.restype = FUNCTIONS[name], c_int
    return function


_NAME_BYTES = 256
_AXES = "xyz"
_TENSOR_CORES = (8, 0)  # the first compute capability with those of `mma`


@dataclass(frozen=True, slots=True)
class CudaProperties:
    """A device of the driver, with the most threads of a block and blocks of a grid by axis."""

    handle: int
    name: str
    capability: tuple[int, int]
    limits: GridLimits
    most_threads: tuple[int, ...]
    most_groups: tuple[int, ...]

    @staticmethod
    def of(driver: CudaDriver, ordinal: int) -> CudaProperties:
        """The device of a number.

        Raises:
            CudaDeviceError: the driver does not tell.
        """
        rule, handle, name = f"cuda: device {ordinal} must tell what it is", c_int(), create_string_buffer(_NAME_BYTES)
        driver.call(rule, "cuDeviceGet", handle, ordinal)
        driver.call(rule, "cuDeviceGetName", name, _NAME_BYTES, handle)

        def values(*attributes: DeviceAttribute) -> tuple[int, ...]:
            value, results = c_int(), []
            for attribute in attributes:
                driver.call(rule, "cuDeviceGetAttribute", value, attribute, handle)
                results.append(value.value)
            return tuple(results)

        A = DeviceAttribute
        (threads, warp), text = values(A.MAX_THREADS_PER_BLOCK, A.WARP_SIZE), name.value.decode()
        shared = values(A.MAX_SHARED_MEMORY_PER_BLOCK, A.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        major, minor = values(A.COMPUTE_CAPABILITY_MAJOR, A.COMPUTE_CAPABILITY_MINOR)
        return CudaProperties(
            handle=handle.value,
            name=text,
            capability=(major, minor),
            limits=GridLimits(text, threads, max(shared), warp, tensor_cores=(major, minor) >= _TENSOR_CORES),
            most_threads=values(A.MAX_BLOCK_DIM_X, A.MAX_BLOCK_DIM_Y, A.MAX_BLOCK_DIM_Z),
            most_groups=values(A.MAX_GRID_DIM_X, A.MAX_GRID_DIM_Y, A.MAX_GRID_DIM_Z),
        )

    def check_threads(self, kernel: str, threads: Sequence[int]) -> None:
        """Refuse a block that is too long along an axis."""
        _check(kernel, "block", "threads", self.name, self.most_threads, threads)

    def check_groups(self, kernel: str, groups: Sequence[int]) -> None:
        """Refuse a grid that is too long along an axis."""
        _check(kernel, "grid", "groups", self.name, self.most_groups, groups)


def _check(kernel: str, whole: str, parts: str, device: str, most: Sequence[int], given: Sequence[int]) -> None:
    for axis, limit, count in zip(_AXES, most, given, strict=True):
        if count > limit:
            rule = f"a {whole} must have at most {limit} {parts} along {axis} on {device}"
            raise CudaDeviceError(f"{kernel}: {rule}, got {count}")
