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
from vdla.hardware.program import (
    STREAM,
    Program,
    ProgramError,
    allocated_sizes,
    initial_contents,
    output_arrays,
    with_parts,
)
from vdla.runtime.devices import Device, open_device
from vdla.runtime.devices.residents import Residents
from vdla.simulator.stats import Result
from vdla.simulator.support.errors import require_program

Array = NDArray[Any]


def run(
    program: Program,
    inputs: Mapping[str, Array] = MappingProxyType({}),
    device: str | Device = "sim",
    config: Config | None = None,
    residents: Residents | None = None,
    offsets: Mapping[str, int] = MappingProxyType({}),
) -> Result:
    """The result of one run: outputs, statistics and trace.

    `inputs` has the packed array of every input tensor. A device given by name is opened for this
    run as the machine `config`, by default the one that the program was compiled for.

    Resident tensors are those of `residents`, on the same device, whose bytes stay from run to run;
    without, they begin anew. `offsets` has the place of each part of one, in bytes from the begin
    of the whole, 0 where it has none.

    Raises:
        ProgramError: arrays that do not fit the program's inputs, an offset that leaves a whole.
        VerifyError: an unsafe program.
        DeviceError: a request that the device refuses, or a failure of the device.
    """
    require_program("run", program, config)
    with ExitStack() as stack:
        if not isinstance(device, Device):
            device = stack.enter_context(open_device(device, config or program.config))
        if residents is not None and not isinstance(residents, Residents):
            rule = f"program {program.name}: residents must be vdla.devices.Residents"
            raise ProgramError(f"{rule}, got {type(residents).__name__}")
        held = {} if residents is None else residents.addresses(program, device)
        addresses = upload(program, inputs, device, stack, held=held, offsets=offsets)
        return _run(program, addresses, device)


def _run(program: Program, addresses: Mapping[str, int], device: Device) -> Result:
    statistics = device.run(program, addresses)
    outputs = output_arrays(program, lambda tensor: device.read(addresses[tensor.name], tensor.nbytes))
    return Result(program, outputs, statistics)


def upload(
    program: Program,
    inputs: Mapping[str, Array],
    device: Device,
    stack: ExitStack,
    allocate: Callable[[str, int], int] | None = None,
    held: Mapping[str, int] = MappingProxyType({}),
    offsets: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Allocate and fill every tensor and the stream; their addresses, in this order, then those of
    parts, at `offsets`.

    They are freed when the stack closes. `allocate` gives the address of a name and its bytes, by
    default the device chooses. Tensors that are `held` are left as they are, at their addresses.
    """
    contents = {name: data for name, data in initial_contents(program, inputs).items() if name not in held}
    addresses = {}
    for name, nbytes in allocated_sizes(program).items():
        if name in held:
            addresses[name] = held[name]
            continue
        size = max(1, nbytes)
        addresses[name] = device.allocate(size) if allocate is None else allocate(name, size)
        stack.callback(device.free, addresses[name])
    addresses = with_parts(program, addresses, offsets)
    contents[STREAM] = program.link(addresses).reshape(-1)
    for name, data in contents.items():
        device.write(addresses[name], data)
    return addresses
