# SPDX-License-Identifier: Apache-2.0
"""Grid devices by the name of their kind: "opencl", "opencl:NAME", "cuda".

The kinds are imported by name and the IR for its types only, as the code for a board has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.grid.protocol import GridDevice, GridDeviceError

if TYPE_CHECKING:
    from vdla.compiler import ir

GRID_DEVICES: Mapping[str, tuple[str, str]] = {
    "opencl": ("vdla.runtime.grid.opencl_devices", "open_opencl"),
    "cuda": ("vdla.runtime.grid.cuda_devices", "open_cuda"),
}
"""For each kind, a module and its function that opens the device of a name."""


def open_grid_device(target: str) -> GridDevice:
    """The device that a target names.

    Raises:
        GridDeviceError: an unknown kind, or no driver or device of that kind.
    """
    kind, _, name = target.partition(":")
    if kind not in GRID_DEVICES:
        known = " or ".join(f"{item}[:NAME]" for item in GRID_DEVICES)
        raise GridDeviceError(f"gpu: the device must be {known}, got {target!r}")
    module, function = GRID_DEVICES[kind]
    try:
        opened = getattr(import_module(module), function)
    except ImportError as error:
        raise GridDeviceError(f"{kind}: this installation must have {module}, got {error}") from None
    return cast("GridDevice", opened(name))


def build_on_grid(fn: ir.Function, target: str) -> DeviceKernel:
    """Compile a function, scheduled by `bind` or not, for the device that a target names.

    Raises:
        GridDeviceError: an unknown kind, no such device, or its compiler refuses the kernels.
        Error: the function asks for more than the device has.
    """
    device = open_grid_device(target)
    return DeviceKernel(device.compile(fn), device)
