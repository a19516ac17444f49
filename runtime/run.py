"""Run a program on a device by name: places its tensors, copies arrays in, runs, copies outputs out.

result = run(program, {"data": data, "weight": weight}, device="sim")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.devices.device import Device, DeviceError
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.sim import SimDevice

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program
    from vdla.simulator.stats import RunStats

Array = NDArray[Any]

DEVICES: Mapping[str, Callable[..., Device]] = {"sim": SimDevice, "rtl": RtlDevice}


@dataclass(frozen=True, slots=True)
class Result:
    """Output arrays by tensor name, and what the run took."""

    outputs: dict[str, Array]
    stats: RunStats


def open_device(name: str, config: Config, **options: Any) -> Device:  # noqa: ANN401  of the device's class
    """The device called `name` as the machine `config`; DeviceError lists the choices.

    `options` are those of its class: `timeout_cycles` of all, `waves`, `assertions`, `stalls` of rtl.
    """
    if not isinstance(name, str) or name not in DEVICES:
        raise DeviceError(f"device: name must be one of {', '.join(DEVICES)}, got {name}")
    return DEVICES[name](config, **options)


def run(
    program: Program, arrays: Mapping[str, Array], device: str | Device = "sim", config: Config | None = None
) -> Result:
    """The outputs and the statistics of one run.

    `arrays` has the packed array of every input tensor. A device given by name is opened for this run as the machine
    `config`, by default the one the program was compiled for. Raises DeviceError, and what the device's verifier says.
    """
    from vdla.simulator.errors import require_program

    require_program("run", program, config)
    with ExitStack() as stack:
        if not isinstance(device, Device):
            device = stack.enter_context(open_device(device, config or program.config))
        return _run(program, arrays, device, stack)


def _run(program: Program, arrays: Mapping[str, Array], device: Device, stack: ExitStack) -> Result:
    from vdla.hardware.program.tensors import from_bytes

    addresses = install(program, arrays, device, stack)
    stats = device.run(program, addresses)
    outputs = [tensor for tensor in program.tensors if tensor.role == "output"]
    arrays_out = {t.name: from_bytes(t, device.read(addresses[t.name], t.nbytes)) for t in outputs}
    return Result(arrays_out, stats)


def install(program: Program, arrays: Mapping[str, Array], device: Device, stack: ExitStack) -> dict[str, int]:
    """Places for every tensor and the stream, in this order, with their content; freed when the stack closes."""
    from vdla.hardware.program import STREAM
    from vdla.hardware.program.tensors import check_names, given, to_bytes

    check_names(program, arrays)
    content = {tensor.name: to_bytes(tensor, arrays[tensor.name]) for tensor in given(program)}
    for tensor in program.tensors:
        if tensor.data is not None:
            content[tensor.name] = np.frombuffer(tensor.data, np.uint8)
    sizes = {tensor.name: tensor.nbytes for tensor in program.tensors} | {STREAM: max(1, program.words.nbytes)}
    addresses = {}
    for name, nbytes in sizes.items():
        addresses[name] = device.allocate(nbytes)
        stack.callback(device.free, addresses[name])
    content[STREAM] = program.link(addresses).reshape(-1)
    for name, data in content.items():
        device.write(addresses[name], data)
    return addresses
