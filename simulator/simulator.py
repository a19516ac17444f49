"""Run a program on arrays: what it computes, how long it takes, or both.

    result = simulate(program, {"data": data, "weight": weight})
    result.outputs["out"], result.stats.total_cycles

Every program is verified first. Function and timing do not depend on each other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import columns
from vdla.hardware.program import STREAM, Program, place
from vdla.hardware.program.tensors import check_names, from_bytes, given, to_bytes
from vdla.simulator.errors import SimulationError, require_program
from vdla.simulator.function.function import execute
from vdla.simulator.stats import RunStats
from vdla.simulator.timing.timing import device_config, time_program
from vdla.simulator.verify.verifier import verify

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


class Mode(str, Enum):
    """What to find out."""

    FUNCTION = "function"
    TIMING = "timing"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Result:
    """`outputs`: tensor name to array, empty for timing only; `stats`: None for function only."""

    outputs: dict[str, Array] = field(default_factory=dict)
    stats: RunStats | None = None


def simulate(
    program: Program,
    arrays: Mapping[str, Array] | None = None,
    config: Config | None = None,
    mode: Mode | str = Mode.BOTH,
    portable: bool = False,
) -> Result:
    """The outputs and the cycles of a program.

    `arrays` has the packed array of every input tensor (of no tensor for timing only). `config` may differ from the
    program's in DRAM model, clock and queue depths. `portable` computes without instructions that only some
    processors have, to the same results. Raises VerifyError for a program that is not safe, SimulationError for
    arrays or a configuration that do not fit it.
    """
    require_program("simulate", program, config)
    wanted = _mode(mode)
    device = device_config(program, config)
    check(program)
    stats = None if wanted is Mode.FUNCTION else time_program(program, device)
    if wanted is Mode.TIMING:
        return Result({}, stats)
    return Result(_outputs(program, arrays or {}, portable), stats)


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        choices = ", ".join(m.value for m in Mode)
        raise SimulationError(f"simulate: mode must be one of {choices}, got {mode}") from None


_VERIFIED: OrderedDict[str, None] = OrderedDict()
_MOST_REMEMBERED = 256


def check(program: Program) -> None:
    """VerifyError unless the program is safe; one that was found safe is not verified twice."""
    if program.hash in _VERIFIED:
        return
    verify(program, program.config).raise_if_bad()
    _VERIFIED[program.hash] = None
    if len(_VERIFIED) > _MOST_REMEMBERED:
        _VERIFIED.popitem(last=False)


def image(program: Program, arrays: Mapping[str, Array], addresses: Mapping[str, int], size: int) -> Bytes:
    """DRAM with the program's stream, its constants and the given arrays in place."""
    check_names(program, arrays)
    content = {tensor.name: to_bytes(tensor, arrays[tensor.name]) for tensor in given(program)}
    dram = np.zeros(size, np.uint8)
    for tensor in program.tensors:
        data = content.get(tensor.name)
        if data is None and tensor.data is not None:
            data = np.frombuffer(tensor.data, np.uint8)
        if data is not None:
            dram[addresses[tensor.name] : addresses[tensor.name] + len(data)] = data
    return dram


def _outputs(program: Program, arrays: Mapping[str, Array], portable: bool) -> dict[str, Array]:
    addresses, size = place(program)
    dram = image(program, arrays, addresses, size)
    linked = program.link(addresses)
    dram[addresses[STREAM] : addresses[STREAM] + linked.nbytes] = linked.reshape(-1)
    execute(program.config, columns(program.config, linked), dram, portable)
    return {
        tensor.name: from_bytes(tensor, dram[addresses[tensor.name] : addresses[tensor.name] + tensor.nbytes])
        for tensor in program.tensors
        if tensor.role == "output"
    }
