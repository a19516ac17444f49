"""A program run on two devices with the same inputs: all times, counters and bytes of memory
compared.

Both devices should have no more memory than the program needs, so that any other access fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import COL, Opcode, columns
from vdla.hardware.program import STREAM, Program
from vdla.runtime.devices import ALIGNMENT, DeviceError, MemoryDevice
from vdla.runtime.run import upload
from vdla.simulator.stats import RunStats, Times
from vdla.simulator.stats.times import EventDifference, first_difference
from vdla.simulator.support.errors import SimulationError

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """The run on one device; `statistics` is None where it failed, `failure` says why."""

    device: str
    statistics: RunStats | None
    times: Times
    memory: Bytes
    failure: str = ""


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """The first byte that differs, its value on each device, and the STOREs that write it."""

    tensor: str
    offset: int
    values: tuple[int, int]
    count: int
    stores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two runs of a program and their differences."""

    program: Program
    runs: tuple[DeviceRun, DeviceRun]
    first_difference: EventDifference | None
    statistics: tuple[str, ...]
    memory_difference: MemoryDifference | None

    @property
    def equal(self) -> bool:
        """Whether both runs ended and agree on everything."""
        failed = any(run.failure for run in self.runs)
        return not (failed or self.first_difference or self.statistics or self.memory_difference)

    def __str__(self) -> str:
        """A line per difference; for equal runs, how much was compared."""
        stats = self.runs[0].statistics
        if self.equal and stats is not None:
            count = len(self.program)
            return f"equal: {count} instruction{'' if count == 1 else 's'}, {stats.total_cycles} cycles"
        return "\n".join(self.differences())

    def differences(self) -> list[str]:
        """A line per difference: failures first, then times, memory and counters."""
        names = [run.device for run in self.runs]
        found = [run.failure for run in self.runs if run.failure]
        if self.first_difference is not None:
            found.append(_event_text(self.first_difference, names))
        if self.memory_difference is not None:
            found.append(_memory_text(self.memory_difference, names))
        return found + [f"{names[0]} and {names[1]}: {text}" for text in self.statistics]


def _event_text(found: EventDifference, names: Sequence[str]) -> str:
    cycles = ["never" if cycle < 0 else f"in cycle {cycle}" for cycle in found.cycles]
    said = ", ".join(f"{name} {cycle}" for name, cycle in zip(names, cycles, strict=True))
    return f"first difference: {found.event} of instruction {found.instruction}: {said}"


def _memory_text(found: MemoryDifference, names: Sequence[str]) -> str:
    said = ", ".join(f"{name} {value:#04x}" for name, value in zip(names, found.values, strict=True))
    place = f"byte {found.offset} of {found.tensor}"
    stores = f"written by instruction {', '.join(map(str, found.stores))}" if found.stores else "which no STORE writes"
    return f"memory: {place}: {said} ({found.count} bytes differ), {stores}"


# --- comparing ------------------------------------------------------------------------------------


def memory_bytes(program: Program) -> int:
    """The DRAM that a program needs on a device, the stream included."""
    sizes = [tensor.nbytes for tensor in program.tensors] + [program.words.nbytes]
    return sum(-(-max(1, size) // ALIGNMENT) * ALIGNMENT for size in sizes)


def compare(program: Program, inputs: Mapping[str, Array], devices: tuple[MemoryDevice, MemoryDevice]) -> Comparison:
    """Run a program on two open devices without allocations; `inputs` as for `run`."""
    first, second = (_observe(program, inputs, device) for device in devices)
    statistics: list[str] = []
    if first.statistics is not None and second.statistics is not None:
        statistics = [text for text in first.statistics.differences(second.statistics) if not _is_time(text)]
    addresses = _addresses(program)
    return Comparison(
        program,
        (first, second),
        first_difference(first.times, second.times) if first.times.known and second.times.known else None,
        tuple(statistics),
        _memory_difference(program, addresses, first.memory, second.memory),
    )


def _is_time(text: str) -> bool:
    return text.startswith(("dispatches[", "starts[", "ends["))


def _observe(program: Program, inputs: Mapping[str, Array], device: MemoryDevice) -> DeviceRun:
    """One run of a program, also where it fails."""
    with ExitStack() as stack:
        addresses = upload(program, inputs, device, stack)
        try:
            stats = device.run(program, addresses)
        except (DeviceError, SimulationError) as error:
            return DeviceRun(device.name, None, device.times(program), device.memory.copy(), str(error))
        return DeviceRun(device.name, stats, Times.of(stats), device.memory.copy())


def _addresses(program: Program) -> dict[str, int]:
    """The addresses that `upload` gets from a device without allocations."""
    addresses, end = {}, 0
    for name, nbytes in [(t.name, t.nbytes) for t in program.tensors] + [(STREAM, program.words.nbytes)]:
        addresses[name] = end
        end += -(-max(1, nbytes) // ALIGNMENT) * ALIGNMENT
    return addresses


def _memory_difference(
    program: Program, addresses: Mapping[str, int], ours: Bytes, theirs: Bytes
) -> MemoryDifference | None:
    size = min(len(ours), len(theirs))
    where = np.flatnonzero(ours[:size] != theirs[:size])
    if not len(where):
        return None
    place = int(where[0])
    tensor = max((name for name in addresses if addresses[name] <= place), key=lambda name: addresses[name])
    stores = tuple(_stores_of(program, addresses, place))
    return MemoryDifference(
        tensor, place - addresses[tensor], (int(ours[place]), int(theirs[place])), len(where), stores
    )


def _stores_of(program: Program, addresses: Mapping[str, int], place: int) -> list[int]:
    """The STOREs that write a byte of memory."""
    config = program.config
    linked = columns(config, program.link(addresses))
    beat, entry = place // config.axi_bytes, config.out_entry_bytes // config.axi_bytes
    found = []
    for k in np.flatnonzero(linked[:, COL["opcode"]] == Opcode.STORE).tolist():
        field = {name: int(linked[k, COL[name]]) for name in COL}
        planes = field["dram"] + np.arange(field["z_size"])[:, None] * field["z_stride"]
        rows = planes + np.arange(field["y_size"]) * field["y_stride"]
        if ((rows <= beat) & (beat < rows + field["x_size"] * entry)).any():
            found.append(k)
    return found
