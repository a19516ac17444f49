# SPDX-License-Identifier: Apache-2.0
"""The OpenCL devices of this machine, by way of pyopencl.

A device is named by a part of its name or its platform's; without a name the first GPU is taken,
else the first device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from vdla.compiler import ir
from vdla.compiler.codegen.opencl import OpenClSource, emit_opencl
from vdla.compiler.target import GridLimits
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.grid.opencl_context import (
    INSTALL,
    OpenClContext,
    OpenClDeviceError,
    build_program,
    device_errors,
    first_line,
    pyopencl,
)
from vdla.runtime.grid.opencl_stream import OpenClKernel, OpenClStream


@dataclass(frozen=True, slots=True)
class OpenClDevice(OpenClContext):
    """A device with the queue of its default stream."""

    queue: Any

    @property
    def limits(self) -> GridLimits:
        """The threads and the shared memory of a group."""
        x, y, z, *_ = map(int, self.handle.max_work_item_sizes)
        most, shared = int(self.handle.max_work_group_size), int(self.handle.local_mem_size)
        return GridLimits(self.name, most, shared, threads_along=(x, y, z))

    @property
    def default_stream(self) -> OpenClStream:
        """The stream in which kernels run that are called with NumPy arrays."""
        return OpenClStream(self, self.queue)

    def stream(self) -> OpenClStream:
        """A new stream."""
        with device_errors(f"opencl: {self.name} must open a queue"):
            return OpenClStream(self, _queue(self.context))

    def supports(self, dtype: str) -> bool:
        """Whether kernels can have elements of a type, as float64 on some devices."""
        return dtype != "float64" or self.has("cl_khr_fp64")

    def compile(self, fn: ir.Function) -> OpenClSource:
        """A scheduled function in OpenCL C.

        Raises:
            SignatureError, PassError, OpenClError: as `emit_opencl`.
        """
        return emit_opencl(fn, self.limits)

    def load(self, source: OpenClSource) -> list[OpenClKernel]:
        """The kernels of a source in the order of its launches, ready to start."""
        cl, program = pyopencl(), build_program(self, source.text)
        return [
            OpenClKernel(cl.Kernel(program, launch.kernel), launch.kernel, launch.threads) for launch in source.launches
        ]

    def __repr__(self) -> str:
        return f"<OpenClDevice {self.name} of {self.platform}>"


def opencl_devices() -> list[str]:
    """The devices of this machine, each as "platform: device".

    Raises:
        OpenClDeviceError: pyopencl or a driver is missing.
    """
    return [f"{platform.name}: {device.name}" for platform, device in _all_devices()]


def open_opencl(name: str = "") -> OpenClDevice:
    """The device whose name, or platform, contains `name`; opened once.

    Raises:
        OpenClDeviceError: pyopencl, a driver or such a device is missing.
    """
    cl, devices = pyopencl(), _all_devices()
    chosen = [pair for pair in devices if name.lower() in f"{pair[0].name}: {pair[1].name}".lower()]
    if not chosen:
        known = "; ".join(opencl_devices())
        raise OpenClDeviceError(f"opencl: the device must be one of {known}, got {name!r}")
    gpus = [pair for pair in chosen if pair[1].type & cl.device_type.GPU]
    return _opened(*(gpus or chosen)[0])


@cache
def _opened(platform: Any, device: Any) -> OpenClDevice:  # noqa: ANN401  pyopencl's
    """A device, the same under each of its names, so that all arrays on it lie in one context."""
    context = pyopencl().Context([device])
    return OpenClDevice(platform.name, device.name, device, context, _queue(context))


def _queue(context: Any) -> Any:  # noqa: ANN401  pyopencl's
    """A queue whose commands run in order and are timed."""
    cl = pyopencl()
    return cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)


def _all_devices() -> list[tuple[Any, Any]]:
    """The platforms and their devices."""
    cl = pyopencl()
    try:
        pairs = [(platform, device) for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error as error:  # the loader found no driver at all
        raise OpenClDeviceError(f"opencl: a driver must be installed, got {first_line(error)}; {INSTALL}") from None
    if not pairs:
        raise OpenClDeviceError(f"opencl: a driver with a device must be installed, got none; {INSTALL}")
    return pairs


def build_opencl(fn: ir.Function, device: str = "") -> DeviceKernel:
    """Compile a function, scheduled by `bind` or not, for a device, named as in `open_opencl`.

    Raises:
        OpenClDeviceError: no such device, or its compiler refuses the source.
        SignatureError, PassError, OpenClError: as `emit_opencl`.
    """
    opened = open_opencl(device)
    return DeviceKernel(opened.compile(fn), opened)
