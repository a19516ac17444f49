# SPDX-License-Identifier: Apache-2.0
"""Simulates a program: its outputs, its cycles, or both.

    result = simulate(program, {"data": data, "weight": weight})
    result.outputs["out"], result.statistics.total_cycles

Every program is verified first. Function and timing are independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import Words, columns
from vdla.hardware.program import STREAM, Program, initial_contents, output_arrays, place
from vdla.simulator.function import execute
from vdla.simulator.stats import Result
from vdla.simulator.support.errors import SimulationError, require_program
from vdla.simulator.timing import device_config, time_program
from vdla.simulator.verify import require_verified
from vdla.support.arrays import Array, Bytes


class Mode(str, Enum):
    """Which results to compute."""

    FUNCTION = "function"
    TIMING = "timing"
    BOTH = "both"


def simulate(
    program: Program,
    inputs: Mapping[str, Array] | None = None,
    config: Config | None = None,
    mode: Mode | str = Mode.BOTH,
    portable: bool = False,
    offsets: Mapping[str, int] = MappingProxyType({}),
) -> Result:
    """The result of a program on the simulator; the same as `run(program, inputs)`, without a
    device's DRAM.

    `inputs` has the packed array of every input tensor; timing alone needs none. `config` may
    differ from the program's in DRAM model, clock and queue depths. `portable` avoids instructions
    that only some processors have; the results are the same. Resident tensors begin as they are
    declared, their parts lie at `offsets`, in bytes, 0 where it has none. Raises VerifyError for an
    unsafe program, ProgramError for inputs and SimulationError for a configuration that do not fit
    it.
    """
    require_program("simulate", program, config)
    wanted = _mode(mode)
    device = device_config(program, config)
    require_verified(program)
    timing = None if wanted is Mode.FUNCTION else time_program(program, device, place(program, offsets=offsets)[0])
    outputs = {} if wanted is Mode.TIMING else _outputs(program, inputs or {}, offsets, portable)
    return Result(program, outputs, timing)


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        choices = ", ".join(m.value for m in Mode)
        raise SimulationError(f"simulate: mode must be one of {choices}, got {mode}") from None


def dram_image(
    program: Program, inputs: Mapping[str, Array], offsets: Mapping[str, int] = MappingProxyType({})
) -> tuple[Words, Bytes]:
    """(the linked stream, DRAM with stream, inputs and data at the addresses of `place`)."""
    addresses, nbytes = place(program, offsets=offsets)
    linked = program.link(addresses)
    contents = {**initial_contents(program, inputs), STREAM: linked.reshape(-1)}
    dram = np.zeros(nbytes, np.uint8)
    for name, data in contents.items():
        dram[addresses[name] : addresses[name] + len(data)] = data
    return linked, dram


def _outputs(
    program: Program, inputs: Mapping[str, Array], offsets: Mapping[str, int], portable: bool
) -> dict[str, Array]:
    addresses, _ = place(program)
    linked, dram = dram_image(program, inputs, offsets)
    execute(program.config, columns(program.config, linked), dram, portable)
    return output_arrays(program, lambda tensor: dram[addresses[tensor.name] :][: tensor.nbytes])
