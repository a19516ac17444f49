"""The functions of the CUDA driver API that this folder calls, and the constants that it passes.

Names and numbers are those of cuda.h. A name ends in `_v2` where the driver keeps an older function
of the plain name; every function returns a CUresult, 0 for success.
"""

from __future__ import annotations

from ctypes import POINTER as _pointer
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from enum import IntEnum
from typing import Any

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
