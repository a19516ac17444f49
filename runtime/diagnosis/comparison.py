# SPDX-License-Identifier: Apache-2.0
"""A program run on two devices with the same inputs: all times, counters, bytes of memory and
entries of on-chip buffers compared, as far as both devices show them.

Devices with memory in this process should have no more than the program needs, so that any other
access fails; of other devices the program's tensors are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import COL, Buffer, Opcode, Where, columns
from vdla.hardware.program import STREAM, Program, allocated_sizes, from_bytes, with_parts
from vdla.runtime.devices import ALIGNMENT, Device, DeviceError, MemoryDevice
from vdla.runtime.devices.memory_device import Contents
from vdla.runtime.devices.run import upload
from vdla.simulator.stats import RunStats, Times
from vdla.simulator.stats.times import EventDifference, first_difference
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.verify.accesses import program_accesses
from vdla.support.html_repr import shown_by

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """The run on one device; `statistics` is None where it failed, `failure` says why."""

    device: str
    statistics: RunStats | None
    times: Times
    memory: Bytes | None
    contents: Contents | None = None
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
class OutputDifference:
    """The first entry of an output that differs, its value on each device, how many differ."""

    tensor: str
    index: tuple[int, ...]
    values: tuple[int, int]
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class BufferDifference:
    """The first element of a buffer that differs, and the last instruction that writes its
    entry.
    """

    buffer: Buffer
    entry: int
    element: int
    values: tuple[int, int]
    count: int
    writer: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two runs of a program and their differences.

    `buffers_compared`: whether both devices showed their buffers, which were alike before the run.
    """

    program: Program
    runs: tuple[DeviceRun, DeviceRun]
    first_difference: EventDifference | None
    statistics: tuple[str, ...]
    memory_difference: MemoryDifference | None
    buffer_difference: BufferDifference | None = None
    buffers_compared: bool = False
    outputs: tuple[OutputDifference, ...] = ()

    @property
    def same_results(self) -> bool:
        """Whether both runs ended and left the same data; cycles and counters may differ."""
        failed = any(run.failure for run in self.runs)
        return not (failed or self.memory_difference or self.buffer_difference)

    @property
    def equal(self) -> bool:
        """Whether both runs ended and agree on everything."""
        return self.same_results and not (self.first_difference or self.statistics)

    _repr_html_ = shown_by("verdicts", "comparison_html")

    def __repr__(self) -> str:
        where = " and ".join(run.device for run in self.runs)
        return f"<Comparison of {self.program.name} on {where}: {'equal' if self.equal else 'different'}>"

    def __str__(self) -> str:
        """A line per difference; for equal runs, how much was compared."""
        stats = self.runs[0].statistics
        if self.equal and stats is not None:
            count = len(self.program)
            return f"equal: {count} instruction{'' if count == 1 else 's'}, {stats.total_cycles} cycles"
        return "\n".join(self.differences())

    def differences(self) -> list[str]:
        """A line per difference: failures first, then times, memory, buffers and counters."""
        names = [run.device for run in self.runs]
        result = [run.failure for run in self.runs if run.failure]
        if self.first_difference is not None:
            result.append(_event_text(self.first_difference, names))
        if self.memory_difference is not None:
            result.append(_memory_text(self.memory_difference, names))
        result += [_output_text(output, names) for output in self.outputs]
        if self.buffer_difference is not None:
            result.append(_buffer_text(self.buffer_difference, names))
        return result + [f"{names[0]} and {names[1]}: {text}" for text in self.statistics]


def _event_text(difference: EventDifference, names: Sequence[str]) -> str:
    cycles = ["never" if cycle < 0 else f"in cycle {cycle}" for cycle in difference.cycles]
    said = ", ".join(f"{name} {cycle}" for name, cycle in zip(names, cycles, strict=True))
    return f"first difference: {difference.event} of instruction {difference.instruction}: {said}"


def _memory_text(difference: MemoryDifference, names: Sequence[str]) -> str:
    said = ", ".join(f"{name} {value:#04x}" for name, value in zip(names, difference.values, strict=True))
    place = f"byte {difference.offset} of {difference.tensor}"
    stores = (
        f"written by instruction {', '.join(map(str, difference.stores))}"
        if difference.stores
        else "which no STORE writes"
    )
    return f"memory: {place}: {said} ({difference.count} bytes differ), {stores}"


def _output_text(difference: OutputDifference, names: Sequence[str]) -> str:
    said = ", ".join(f"{name} {value}" for name, value in zip(names, difference.values, strict=True))
    place = f"{difference.tensor}[{', '.join(map(str, difference.index))}]"
    return f"output: {place}: {said} ({difference.count} of {difference.size} differ)"


def _buffer_text(difference: BufferDifference, names: Sequence[str]) -> str:
    said = ", ".join(f"{name} {value}" for name, value in zip(names, difference.values, strict=True))
    place = f"element {difference.element} of {difference.buffer.name.lower()} entry {difference.entry}"
    written = (
        "which no instruction writes"
        if difference.writer is None
        else f"written last by instruction {difference.writer}"
    )
    return f"buffers: {place}: {said} ({difference.count} elements differ), {written}"


# --- comparing ------------------------------------------------------------------------------------


def memory_bytes(program: Program) -> int:
    """The DRAM that a program needs on a device, the stream included."""
    return sum(-(-max(1, size) // ALIGNMENT) * ALIGNMENT for size in allocated_sizes(program).values())


def compare(
    program: Program,
    inputs: Mapping[str, Array],
    devices: tuple[Device, Device],
    places: Mapping[str, int] | None = None,
    tensors_only: bool = False,
) -> Comparison:
    """Run a program on two open devices; `inputs` as for `run`.

    Where both have their memory in this process and no allocations, all of it is compared, unless
    `tensors_only`; otherwise that of the program's tensors. `places`: the addresses of all tensors
    and of the stream (STREAM), beyond the devices' memory; by default the devices choose them.
    """
    alike = begin_alike(devices)
    tensors_only = tensors_only or not all(isinstance(device, MemoryDevice) for device in devices)
    first, second = (_observe(program, inputs, device, places, tensors_only) for device in devices)
    statistics: list[str] = []
    if first.statistics is not None and second.statistics is not None:
        statistics = [text for text in first.statistics.differences(second.statistics) if not _is_time(text)]
    shown = alike and first.contents is not None and second.contents is not None
    known = first.times.known and second.times.known
    return Comparison(
        program=program,
        runs=(first, second),
        first_difference=first_difference(first.times, second.times) if known else None,
        statistics=tuple(statistics),
        memory_difference=_memory_difference(program, tensor_places(program), first.memory, second.memory),
        buffer_difference=_buffer_difference(program, first.contents, second.contents) if shown else None,
        buffers_compared=shown,
        outputs=tuple(tensor_differences(program, first.memory, second.memory, ("output",))),
    )


def begin_alike(devices: tuple[Device, Device]) -> bool:
    """Give one device's buffers to the other; whether both show theirs and this could be done."""
    known = [device for device in devices if isinstance(device, MemoryDevice)]
    if len(known) < len(devices):
        return False
    model = next((device for device in known if not device.takes_contents), known[0])
    contents = model.contents()
    if contents is None or not all(device is model or device.takes_contents for device in known):
        return False
    for device in known:
        if device.takes_contents:
            device.begin_with(contents)
    return True


def _is_time(text: str) -> bool:
    return text.startswith(("dispatches[", "starts[", "ends["))


def _observe(
    program: Program,
    inputs: Mapping[str, Array],
    device: Device,
    places: Mapping[str, int] | None,
    tensors_only: bool,
) -> DeviceRun:
    """One run of a program, also where it fails."""
    shown = device if isinstance(device, MemoryDevice) else None

    def allocate(name: str, nbytes: int) -> int:
        return device.allocate(nbytes) if places is None or shown is None else shown.allocate_at(places[name], nbytes)

    with ExitStack() as stack:
        addresses = upload(program, inputs, device, stack, allocate)
        try:
            stats = device.run(program, addresses)
        except (DeviceError, SimulationError) as error:
            times = Times.none(len(program)) if shown is None else shown.times(program)
            memory = None if tensors_only or shown is None else shown.memory.copy()
            return DeviceRun(device.name, None, times, memory, failure=str(error))
        memory = _tensors(program, device, addresses) if tensors_only or shown is None else shown.memory.copy()
        contents = None if shown is None else shown.contents()
        return DeviceRun(device.name, stats, Times.of(stats), memory, contents)


def _tensors(program: Program, device: Device, addresses: Mapping[str, int]) -> Bytes:
    """The tensors of a program where a device without allocations has them."""
    offsets = tensor_places(program)
    image = np.zeros(offsets[STREAM], np.uint8)
    for tensor in program.tensors:
        begin = offsets[tensor.name]
        image[begin : begin + tensor.nbytes] = device.read(addresses[tensor.name], tensor.nbytes)
    return image


def tensor_places(program: Program) -> dict[str, int]:
    """Where in its memory a device without allocations has what `upload` allocates."""
    offsets, end = {}, 0
    for name, nbytes in allocated_sizes(program).items():
        offsets[name] = end
        end += -(-max(1, nbytes) // ALIGNMENT) * ALIGNMENT
    return with_parts(program, offsets, {})


# --- memory ---------------------------------------------------------------------------------------


def _memory_difference(
    program: Program, offsets: Mapping[str, int], ours: Bytes | None, theirs: Bytes | None
) -> MemoryDifference | None:
    if ours is None or theirs is None:
        return None
    size = min(len(ours), len(theirs))
    where = np.flatnonzero(ours[:size] != theirs[:size])
    if not len(where):
        return None
    place = int(where[0])
    tensor = max((name for name in offsets if offsets[name] <= place), key=lambda name: offsets[name])
    stores = tuple(_stores_of(program, offsets, place))
    return MemoryDifference(tensor, place - offsets[tensor], (int(ours[place]), int(theirs[place])), len(where), stores)


def tensor_differences(
    program: Program, ours: Bytes | None, theirs: Bytes | None, roles: Sequence[str]
) -> Iterator[OutputDifference]:
    """The first entry that differs of each tensor with one of these roles."""
    if ours is None or theirs is None:
        return
    places = tensor_places(program)
    for tensor in program.tensors:
        span = slice(places[tensor.name], places[tensor.name] + tensor.nbytes)
        if tensor.role not in roles or np.array_equal(ours[span], theirs[span]):
            continue
        one, other = (from_bytes(tensor, image[span]) for image in (ours, theirs))
        where = np.argwhere(one != other)
        index = tuple(map(int, where[0]))
        yield OutputDifference(tensor.name, index, (int(one[index]), int(other[index])), len(where), one.size)


def _stores_of(program: Program, offsets: Mapping[str, int], place: int) -> list[int]:
    """The STOREs that write a byte of memory."""
    config = program.config
    linked = columns(config, program.link(offsets))
    beat, entry = place // config.axi_bytes, config.out_entry_bytes // config.axi_bytes
    result = []
    for k in np.flatnonzero(linked[:, COL["opcode"]] == Opcode.STORE).tolist():
        field = {name: int(linked[k, COL[name]]) for name in COL}
        planes = field["dram"] + np.arange(field["z_size"])[:, None] * field["z_stride"]
        rows = planes + np.arange(field["y_size"]) * field["y_stride"]
        if ((rows <= beat) & (beat < rows + field["x_size"] * entry)).any():
            result.append(k)
    return result


# --- buffers --------------------------------------------------------------------------------------


def _buffer_difference(program: Program, ours: Contents | None, theirs: Contents | None) -> BufferDifference | None:
    assert ours is not None and theirs is not None
    for buffer in Buffer:
        where = np.argwhere(ours[buffer] != theirs[buffer])
        if len(where):
            entry, element = map(int, where[0])
            values = int(ours[buffer][entry, element]), int(theirs[buffer][entry, element])
            return BufferDifference(buffer, entry, element, values, len(where), _writer(program, buffer, entry))
    return None


def _writer(program: Program, buffer: Buffer, entry: int) -> int | None:
    """The last instruction in stream order that writes an entry."""
    for number, accesses in reversed(list(enumerate(program_accesses(program).accesses))):
        for _, access in accesses:
            if access.buffer == buffer and access.writes and _contains(access.where, entry):
                return number
    return None


def _contains(place: Where, entry: int) -> bool:
    return place.start <= entry < place.stop if isinstance(place, slice) else entry in place
