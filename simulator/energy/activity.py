# SPDX-License-Identifier: Apache-2.0
"""The events of a program, counted from its instructions: the one formulation of them.

What the machine does in a cycle is counted, needed or not: a step of a VECTOR reads a word of the
input and of the weight buffer whatever its operands are, as the RTL does. The RTL's own counters
(`RtlDevice(activity=True)`) give the same numbers for every program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, EXTENSION, EXTENSION_COLUMN, Emit, Opcode, StagedEmit, VectorOp
from vdla.hardware.isa.plug_in import OldSum, StepPorts
from vdla.hardware.isa.step_ports import vector_ports
from vdla.hardware.program import STREAM, Program, place
from vdla.simulator.energy.bursts import bursts_of, bursts_of_stream
from vdla.simulator.energy.event import Action, EventCounts, LaneStep, MachineEvent, lane_events
from vdla.simulator.energy.kernels import LOOPED, starts_and_ends
from vdla.simulator.energy.widths import entry_bits, uop_beats, word_bits
from vdla.simulator.stats.moved_bytes import entry_beats
from vdla.simulator.timing.wait_table import dma_runs, stream_beats
from vdla.support.arrays import Bools, Ints

Counted = Iterator[tuple[MachineEvent, Ints]]


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """How often each event happens: `counts[instruction, event]`; the fetch of an instruction is
    counted with it.
    """

    config: Config
    events: tuple[MachineEvent, ...]
    counts: Ints

    @property
    def total(self) -> EventCounts:
        """The events of the program that happen, in order."""
        sums = self.counts.sum(axis=0).tolist()
        return {event: count for event, count in zip(self.events, sums, strict=True) if count}

    def of(self, instructions: Any) -> EventCounts:  # noqa: ANN401  an index of NumPy
        """The events of some instructions."""
        sums = self.counts[instructions].reshape(-1, len(self.events)).sum(axis=0).tolist()
        return {event: count for event, count in zip(self.events, sums, strict=True) if count}

    def to_dict(self) -> dict[str, Any]:
        """The totals as JSON-compatible values."""
        return {"config": self.config.name, "events": event_dicts(self.total)}


def event_dicts(counts: Mapping[MachineEvent, int]) -> list[dict[str, Any]]:
    """Counted events as JSON-compatible values."""
    return [
        {
            "part": event.part,
            "action": event.action.value,
            "bits": event.bits,
            "other_bits": event.other_bits,
            "count": n,
        }
        for event, n in sorted(counts.items(), key=lambda item: (item[0].part, str(item[0])))
    ]


def activity_of(program: Program, addresses: Mapping[str, int] | None = None) -> Activity:
    """The events of a verified program at `addresses`, by default those of `place`.

    Addresses change the number of bursts only: a burst does not cross a multiple of 4096.
    """
    places = place(program)[0] if addresses is None else dict(addresses)
    sums: dict[MachineEvent, Ints] = {}
    for event, count in (*_of_transfers(program, places), *_of_compute(program)):
        sums[event] = sums.get(event, 0) + count
    events = tuple(sorted(sums, key=lambda event: (event.part, event.action.value, event.bits, event.other_bits)))
    counts = np.zeros((len(program.columns), len(events)), np.int64)
    for at, event in enumerate(events):
        counts[:, at] = sums[event]
    return Activity(program.config, events, counts)


def summed(counts: Iterable[Mapping[MachineEvent, int]]) -> EventCounts:
    """The events of several programs together."""
    total: Counter[MachineEvent] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


# --- LOAD, STORE and the fetch of instructions ----------------------------------------------------


def _of_transfers(program: Program, places: Mapping[str, int]) -> Counted:
    config, linked = program.config, program.linked_columns(places)
    opcode, buffer = linked[:, COL["opcode"]], linked[:, COL["buffer"]]
    entries = linked[:, COL["z_size"]] * linked[:, COL["y_size"]] * linked[:, COL["x_size"]]
    pads, beats = dma_runs(config, linked)["pads"], entries * entry_beats(config, linked)
    loads, stores = opcode == Opcode.LOAD, opcode == Opcode.STORE
    bursts, stream = bursts_of(config, linked), stream_beats(config)
    first = places[STREAM] // config.axi_bytes
    axi = 8 * config.axi_bytes
    fetched = bursts_of_stream(config, first, len(linked), stream)
    yield MachineEvent("dram", Action.READ, axi), np.where(loads, beats, 0) + stream
    yield MachineEvent("dram", Action.WRITE, axi), np.where(stores, beats, 0)
    yield MachineEvent("reads", Action.BURST), np.where(loads, bursts, 0) + fetched
    yield MachineEvent("writes", Action.BURST), np.where(stores, bursts, 0)
    yield _read(config, Buffer.OUT), np.where(stores, entries, 0)
    for of in (Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC):
        mine = loads & (buffer == of)
        widened = mine & (linked[:, COL["widen"]] > 0)
        yield _write(of, axi), np.where(mine & ~widened, beats, 0)
        yield _write(of, axi * (config.acc_bits // config.inp_bits)), np.where(widened, beats, 0)
        yield _write(of, entry_bits(config, of)), np.where(mine, pads, 0)
    for bits in uop_beats(config):
        yield _write(Buffer.UOP, bits), np.where(loads & (buffer == Buffer.UOP), entries, 0)


def _read(config: Config, buffer: Buffer) -> MachineEvent:
    return MachineEvent(buffer.name.lower(), Action.READ, word_bits(config, buffer))


def _write(buffer: Buffer, bits: int) -> MachineEvent:
    return MachineEvent(buffer.name.lower(), Action.WRITE, bits)


# --- GEMM, VECTOR and extensions ------------------------------------------------------------------


def _of_compute(program: Program) -> Counted:
    config, columns = program.config, program.columns
    starts, ends = starts_and_ends(program)
    loops = np.where(np.isin(columns[:, COL["opcode"]], LOOPED), columns[:, COL["loop0"]] * columns[:, COL["loop1"]], 0)
    steps = loops * (columns[:, COL["uop_end"]] - columns[:, COL["uop_begin"]])
    begun = loops * starts * columns[:, COL["init"]]
    for bits in uop_beats(config):
        yield MachineEvent("uop", Action.READ, bits), steps
    gemms = columns[:, COL["opcode"]] == Opcode.GEMM
    yield from _lanes(config, LaneStep.GEMM, np.where(gemms, steps, 0))
    writes, inputs = np.zeros_like(steps), np.zeros_like(steps)
    for chosen, ports, buffers in _forms(config, columns):
        mine, started = np.where(chosen, steps, 0), np.where(chosen, begun, 0)
        for buffer in buffers:
            yield _read(config, buffer), mine * _memories(config, buffer)
        if ports.src is not None and ports.src.buffer is Buffer.ACC:
            yield _read(config, Buffer.ACC), mine
        if ports.old in (OldSum.READ, OldSum.ACCUMULATE):
            yield _read(config, Buffer.ACC), mine if ports.old is OldSum.READ else mine - started
        if ports.old is not OldSum.UNTOUCHED:
            writes += mine
        if ports.writes_inputs:
            inputs += mine
    yield _write(Buffer.ACC, entry_bits(config, Buffer.ACC)), writes
    yield _write(Buffer.INP, entry_bits(config, Buffer.INP)), inputs
    yield from _lanes(config, LaneStep.PASS, writes)
    vectors, op = columns[:, COL["opcode"]] == Opcode.VECTOR, columns[:, COL["op"]]
    products = np.where(op == VectorOp.MUL, steps - begun, np.where(op == VectorOp.MAC, steps, 0))
    yield from _lanes(config, LaneStep.PRODUCT, np.where(vectors, products, 0))
    for number, plug_in in enumerate(config.extensions):
        yield MachineEvent(plug_in.name, Action.STEP), np.where(_of_plug_in(columns, number), steps, 0)
    yield from _of_results(config, columns[:, COL["emit"]], loops * ends)


def _forms(config: Config, columns: Ints) -> Iterator[tuple[Bools, StepPorts, list[Buffer]]]:
    """The instructions of each form, what a step of them does, and the buffers of which it reads a
    word beside the accumulator.
    """
    gemms, vectors = (columns[:, COL["opcode"]] == opcode for opcode in (Opcode.GEMM, Opcode.VECTOR))
    both = [Buffer.INP, Buffer.WGT]
    yield gemms, StepPorts(OldSum.ACCUMULATE, None, None), both
    fields = columns[:, [COL[name] for name in ("op", "source", "operand")]]
    for form in np.unique(fields[vectors], axis=0).tolist():
        yield vectors & (fields == form).all(axis=1), vector_ports(*form), both
    for number, plug_in in enumerate(config.extensions):
        read = [port.buffer for _, port in plug_in.ports.indexed if port.buffer in both]
        yield _of_plug_in(columns, number), plug_in.ports, read


def _memories(config: Config, buffer: Buffer) -> int:
    """The memories of a buffer that a read is of: of inputs two, where steps write them too."""
    return 1 + int(buffer is Buffer.INP and any(plug_in.writes_inputs for plug_in in config.extensions))


def _of_plug_in(columns: Ints, number: int) -> Bools:
    chosen: Bools = (columns[:, COL["opcode"]] == EXTENSION) & (columns[:, EXTENSION_COLUMN] == number)
    return chosen


def _of_results(config: Config, emit: Ints, finished: Ints) -> Counted:
    """Finished sums on their way to the output buffer; their parameters are read for RAW too."""
    raw = np.where(emit == Emit.RAW, finished, 0)
    requantised = np.where((emit == Emit.REQUANT) | (emit == StagedEmit.STAGE), finished, 0)
    yield _read(config, Buffer.SCL), raw + requantised
    yield _write(Buffer.OUT, entry_bits(config, Buffer.OUT)), requantised
    yield _write(Buffer.OUT, entry_bits(config, Buffer.ACC)), raw
    yield from _lanes(config, LaneStep.REQUANTISE, requantised)
    if config.stage is not None:
        yield MachineEvent(config.stage.name, Action.STEP), np.where(emit == StagedEmit.STAGE, finished, 0)


def _lanes(config: Config, step: LaneStep, count: Ints) -> Counted:
    return ((event, count * many) for event, many in lane_events(config, step))
