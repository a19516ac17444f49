# SPDX-License-Identifier: Apache-2.0
"""Runs a program on a device: allocates its tensors, copies inputs in, runs, copies outputs out.

result = run(program, {"data": data, "weight": weight}, device="sim")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, Program, initial_contents, output_arrays
from vdla.runtime.devices import Device, open_device
from vdla.simulator.stats import Result
from vdla.simulator.support.errors import require_program

Array = NDArray[Any]


def run(
    program: Program,
    inputs: Mapping[str, Array] = MappingProxyType({}),
    device: str | Device = "sim",
    config: Config | None = None,
) -> Result:
    """The result of one run: outputs, statistics and trace.

    `inputs` has the packed array of every input tensor. A device given by name is opened for this
    run as the machine `config`, by default the one that the program was compiled for.

    Raises:
        ProgramError: arrays that do not fit the program's inputs.
        VerifyError: an unsafe program.
        DeviceError: a request that the device refuses, or a failure of the device.
    """
    require_program("run", program, config)
    with ExitStack() as stack:
        if not isinstance(device, Device):
            device = stack.enter_context(open_device(device, config or program.config))
        return _run(program, inputs, device, stack)


def _run(program: Program, inputs: Mapping[str, Array], device: Device, stack: ExitStack) -> Result:
    addresses = upload(program, inputs, device, stack)
    statistics = device.run(program, addresses)
    outputs = output_arrays(program, lambda tensor: device.read(addresses[tensor.name], tensor.nbytes))
    return Result(program, outputs, statistics)


def upload(
    program: Program,
    inputs: Mapping[str, Array],
    device: Device,
    stack: ExitStack,
    allocate: Callable[[str, int], int] | None = None,
) -> dict[str, int]:
    """Allocate and fill every tensor and the stream; their addresses, in this order.

    They are freed when the stack closes. `allocate` gives the address of a name and its bytes, by
    default the device chooses.
    """
    contents = initial_contents(program, inputs)
    sizes = {tensor.name: tensor.nbytes for tensor in program.tensors} | {STREAM: max(1, program.words.nbytes)}
    addresses = {}
    for name, nbytes in sizes.items():
        addresses[name] = device.allocate(nbytes) if allocate is None else allocate(name, nbytes)
        stack.callback(device.free, addresses[name])
    contents[STREAM] = program.link(addresses).reshape(-1)
    for name, data in contents.items():
        device.write(addresses[name], data)
    return addresses
