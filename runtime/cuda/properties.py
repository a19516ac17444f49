"""What a CUDA device is: its name, its compute capability, its limits."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int, create_string_buffer
from dataclasses import dataclass

from vdla.compiler.target import GridLimits
from vdla.runtime.cuda.driver import CudaDriver
from vdla.runtime.cuda.errors import CudaDeviceError
from vdla.runtime.cuda.functions import DeviceAttribute

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
            value, found = c_int(), []
            for attribute in attributes:
                driver.call(rule, "cuDeviceGetAttribute", value, attribute, handle)
                found.append(value.value)
            return tuple(found)

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
