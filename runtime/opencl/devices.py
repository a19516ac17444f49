"""The OpenCL devices of this machine, by way of pyopencl.

A device is named by a part of its name or its platform's; without a name the first GPU is taken,
else the first device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from vdla.compiler.target import GridLimits
from vdla.runtime.opencl.errors import OpenClDeviceError

_INSTALL = 'pip install "vdla[opencl]"'


@dataclass(frozen=True, slots=True)
class OpenClDevice:
    """A device with its queue, in which kernels run in order and are timed."""

    platform: str
    name: str
    handle: Any
    context: Any
    queue: Any

    @property
    def limits(self) -> GridLimits:
        """The threads and the shared memory of a group."""
        return GridLimits(self.name, int(self.handle.max_work_group_size), int(self.handle.local_mem_size))

    def has(self, extension: str) -> bool:
        """Whether the device has an extension, such as cl_khr_fp64."""
        return extension in self.handle.extensions.split()

    def __repr__(self) -> str:
        return f"<OpenClDevice {self.name} of {self.platform}>"


def opencl_devices() -> list[str]:
    """The devices of this machine, each as "platform: device".

    Raises:
        OpenClDeviceError: pyopencl or a driver is missing.
    """
    return [f"{platform.name}: {device.name}" for platform, device in _found()]


@cache
def open_opencl(name: str = "") -> OpenClDevice:
    """The device whose name, or platform, contains `name`; opened once.

    Raises:
        OpenClDeviceError: pyopencl, a driver or such a device is missing.
    """
    cl, found = pyopencl(), _found()
    chosen = [pair for pair in found if name.lower() in f"{pair[0].name}: {pair[1].name}".lower()]
    if not chosen:
        known = "; ".join(opencl_devices())
        raise OpenClDeviceError(f"opencl: the device must be one of {known}, got {name!r}")
    gpus = [pair for pair in chosen if pair[1].type & cl.device_type.GPU]
    platform, device = (gpus or chosen)[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    return OpenClDevice(platform.name, device.name, device, context, queue)


def pyopencl() -> ModuleType:
    """The module pyopencl.

    Raises:
        OpenClDeviceError: it is not installed.
    """
    try:
        import pyopencl as module
    except ImportError as error:
        raise OpenClDeviceError(f"opencl: pyopencl must be installed, got {error}; {_INSTALL}") from None
    return module


def _found() -> list[tuple[Any, Any]]:
    """The platforms and their devices."""
    cl = pyopencl()
    try:
        pairs = [(platform, device) for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error as error:  # the loader found no driver at all
        raise OpenClDeviceError(f"opencl: a driver must be installed, got {_first_line(error)}; {_INSTALL}") from None
    if not pairs:
        raise OpenClDeviceError(f"opencl: a driver with a device must be installed, got none; {_INSTALL}")
    return pairs


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
