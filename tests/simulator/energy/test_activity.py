# SPDX-License-Identifier: Apache-2.0
"""Counts of events: a program by hand, a naive model that walks through every iteration."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from helpers.staged_datapaths import leaky
from helpers.stateful_datapaths import echo, tally, tinted

import vdla
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, EXTENSION, Emit, Opcode, Operand, Source, VectorOp, plug_in_of, uop_columns
from vdla.hardware.program import STREAM, place
from vdla.simulator.energy import Action, MachineEvent, activity_of
from vdla.simulator.energy.activity import summed
from vdla.simulator.energy.bursts import bursts_of_runs, bursts_of_stream
from vdla.verification.generated_tests.datapath_samples import AT_ONCE, GROUPS, SPACED
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program
from vdla.verification.programs.random_machines import COLUMN, DOUBLE_GROUP, FOUR_PORTS, ROW, WIDE
from vdla.verification.programs.random_programs import random_verified_program

TINY = Config.preset("tiny")
EXTENDED = replace(TINY, batch=2, block_in=8, acc_kib=4, inp_kib=4)


def test_a_product_by_hand():
    """Two rows of 4 inputs by 4 x 4 weights: one load each of inp, wgt, scl and uop."""
    program = gemm_program(GemmTiling(TINY, 2, 4, 4, 2, 1))
    total = activity_of(program).total
    assert total[MachineEvent("array", Action.MULTIPLY, 8, 8)] == 2 * 4 * 4
    assert total[MachineEvent("array", Action.ADD, 18)] == 2 * 4 * 3
    assert total[MachineEvent("accumulator", Action.ADD, 32)] == 2 * 4
    assert total[MachineEvent("requantiser", Action.MULTIPLY, 32, 24)] == 2 * 4
    assert total[MachineEvent("inp", Action.READ, 32)] == total[MachineEvent("wgt", Action.READ, 128)] == 2
    assert total[MachineEvent("inp", Action.WRITE, 32)] == 2  # a beat has an entry
    assert total[MachineEvent("wgt", Action.WRITE, 32)] == 4
    assert MachineEvent("acc", Action.READ, 128) not in total  # both sums are begun
    assert total[MachineEvent("acc", Action.WRITE, 128)] == 2
    assert total[MachineEvent("out", Action.WRITE, 32)] == total[MachineEvent("out", Action.READ, 128)] == 2
    assert total[MachineEvent("dram", Action.WRITE, 32)] == 2


# --- the naive model ------------------------------------------------------------------------------


def naive(program):
    """The events of a program, one iteration, one entry and one beat at a time."""
    config, places = program.config, place(program)[0]
    counts: Counter[MachineEvent] = Counter()
    uops = np.zeros((config.uop_depth, 5), np.int64)
    for number, row in enumerate(program.linked_columns(places)):
        if row[COL["opcode"]] in (Opcode.LOAD, Opcode.STORE):
            move(config, row, counts)
        if row[COL["opcode"]] == Opcode.LOAD and row[COL["buffer"]] == Buffer.UOP:
            load(program, number, uops)
        if row[COL["opcode"]] in (Opcode.GEMM, Opcode.VECTOR, EXTENSION):
            for uop in uops[row[COL["uop_begin"]] : row[COL["uop_end"]]].tolist() * int(
                row[COL["loop0"]] * row[COL["loop1"]]
            ):
                iterate(config, row, uop, counts)
    stream = places[STREAM] // config.axi_bytes
    beats = program.words.nbytes // config.axi_bytes
    counts[MachineEvent("dram", Action.READ, 8 * config.axi_bytes)] += beats
    counts[MachineEvent("reads", Action.BURST)] += cut(config, range(stream, stream + beats))
    return {event: int(count) for event, count in counts.items() if count}


def load(program, number, uops):
    row, config = program.columns[number], program.config
    data = np.frombuffer(program.tensors[program.tensor_of[number]].data, np.uint8)
    at = int(row[COL["sram"]])
    for z in range(row[COL["z_size"]]):
        for y in range(row[COL["y_size"]]):
            for x in range(row[COL["x_size"]]):
                beat = row[COL["dram"]] + z * row[COL["z_stride"]] + y * row[COL["y_stride"]]
                begin = beat * config.axi_bytes + x * config.uop_entry_bytes
                uops[at] = uop_columns(config, data[None, begin : begin + config.uop_entry_bytes])[0]
                at += 1


def cut(config, beats):
    """The bursts of beats in order: one begins where the last cannot go on."""
    bursts, length, page = 0, 0, 4096 // config.axi_bytes
    for number, beat in enumerate(beats):
        follows = number and beat == beats[number - 1] + 1 and length < config.burst_beats and beat % page
        length = length + 1 if follows else 1
        bursts += not follows
    return bursts


def move(config, row, counts):
    z_size, y_size, x_size, z_stride, y_stride, dram = (
        int(row[COL[name]]) for name in ("z_size", "y_size", "x_size", "z_stride", "y_stride", "dram")
    )
    stores = row[COL["opcode"]] == Opcode.STORE
    buffer = Buffer.OUT if stores else Buffer(row[COL["buffer"]])
    axi, widen = 8 * config.axi_bytes, bool(row[COL["widen"]])
    beats_of_entry = config.entry_bytes[Buffer.OUT if widen else buffer] // config.axi_bytes
    runs = [
        [dram + z * z_stride + y * y_stride + k for k in range(x_size * beats_of_entry)]
        for z in range(z_size)
        for y in range(y_size)
    ]
    merges = y_size == 1 or y_stride == x_size * beats_of_entry
    planes = [list(chain(*runs[z * y_size : (z + 1) * y_size])) for z in range(z_size)] if merges else runs
    if merges and (z_size == 1 or z_stride == x_size * y_size * beats_of_entry):
        planes = [list(chain(*planes))]
    counts[MachineEvent("writes" if stores else "reads", Action.BURST)] += sum(cut(config, run) for run in planes)
    entries = z_size * y_size * x_size
    counts[MachineEvent("dram", Action.WRITE if stores else Action.READ, axi)] += entries * beats_of_entry
    if stores:
        counts[MachineEvent("out", Action.READ, 8 * config.acc_entry_bytes)] += entries
        return
    part, whole = buffer.name.lower(), 8 * config.entry_bytes[buffer]
    rows = row[COL["y_before"]] + y_size + row[COL["y_after"]]
    width = row[COL["x_before"]] + x_size + row[COL["x_after"]]
    counts[MachineEvent(part, Action.WRITE, whole)] += z_size * rows * width - entries
    if buffer is Buffer.UOP:
        for bits in stored(config):
            counts[MachineEvent(part, Action.WRITE, bits)] += entries
        return
    counts[MachineEvent(part, Action.WRITE, axi * (32 // config.inp_bits if widen else 1))] += entries * beats_of_entry


def stored(config):
    """The bits of a micro-op in each beat of it."""
    bits, beat = sum(slot.width for slot in vdla.isa.uop_layout(config)), 8 * config.axi_bytes
    return [beat] * (bits // beat) + [bits % beat] * (bits % beat > 0)


def iterate(config, row, uop, counts):
    lanes = config.batch * config.block_out
    starts = bool(row[COL["init"]] and uop[3])
    plug_in = plug_in_of(config, row)
    op, source, operand = (row[COL[name]] for name in ("op", "source", "operand"))
    reads, writes, buffers = 0, True, ["inp", "wgt"]
    words = widths(config)
    if plug_in is not None:
        counts[MachineEvent(plug_in.name, Action.STEP)] += 1
        ports = [port for port in (plug_in.src, plug_in.wgt) if port is not None]
        buffers = [port.buffer.name.lower() for port in ports if port.buffer in (Buffer.INP, Buffer.WGT)]
        reads += sum(port.buffer is Buffer.ACC for port in ports)
        old = plug_in.old.value
        reads += old == "read" or (old == "accumulate" and not starts)
        writes = old != "untouched"
    elif row[COL["opcode"]] == Opcode.GEMM:
        counts[MachineEvent("array", Action.MULTIPLY, *sorted((config.inp_bits, config.wgt_bits), reverse=True))] += (
            lanes * config.block_in
        )
        width = config.inp_bits + config.wgt_bits + int(np.ceil(np.log2(config.block_in)))
        counts[MachineEvent("array", Action.ADD, width)] += lanes * (config.block_in - 1)
        reads += not starts
    else:
        reads += not starts and op != VectorOp.MOV
        reads += source == Source.ACC and (operand == Operand.SRC or op == VectorOp.MAC)
        if op == VectorOp.MAC or (op == VectorOp.MUL and not starts):
            counts[MachineEvent("accumulator", Action.MULTIPLY, 32, 32)] += lanes
    counts[MachineEvent("acc", Action.READ, 32 * lanes)] += reads
    for buffer in buffers:
        counts[MachineEvent(buffer, Action.READ, words[buffer])] += 1
    for bits in stored(config):
        counts[MachineEvent("uop", Action.READ, bits)] += 1
    if writes:
        counts[MachineEvent("acc", Action.WRITE, 32 * lanes)] += 1
        counts[MachineEvent("accumulator", Action.ADD, 32)] += lanes
    if row[COL["emit"]] and uop[4]:
        finish(config, row[COL["emit"]], lanes, counts)


def finish(config, emit, lanes, counts):
    raw = emit == Emit.RAW
    counts[MachineEvent("scl", Action.READ, 64 * config.block_out)] += 1
    counts[MachineEvent("out", Action.WRITE, (32 if raw else config.inp_bits) * lanes)] += 1
    if not raw:
        counts[MachineEvent("requantiser", Action.MULTIPLY, 32, 24)] += lanes
        counts[MachineEvent("requantiser", Action.ADD, 32)] += lanes
    if emit not in (Emit.REQUANT, Emit.RAW):
        counts[MachineEvent(config.stage.name, Action.STEP)] += 1


def widths(config):
    """The words of the input and the weight buffer, with the largest operand of an extension."""
    ports = [port for plug_in in config.extensions for port in (plug_in.src, plug_in.wgt) if port is not None]
    group = {buffer: max([1, *(p.entries for p in ports if p.buffer is buffer)]) for buffer in Buffer}
    vector = config.batch * config.block_out * config.inp_bits
    inputs = max(group[Buffer.INP] * config.batch * config.block_in * config.inp_bits, vector)
    return {"inp": inputs, "wgt": group[Buffer.WGT] * config.block_out * config.block_in * config.wgt_bits}


MACHINES = (TINY, *map(Config.preset, ("pynq_z1", "int4", "batch4")), WIDE, COLUMN, ROW, DOUBLE_GROUP, FOUR_PORTS)


@pytest.mark.sampled
@pytest.mark.parametrize("config", MACHINES, ids=[config.name for config in MACHINES])
def test_random_programs_count_as_the_naive_model(config):
    for seed, count in enumerate((0, 1, 40, 60)):
        program = random_verified_program(config, 70 + seed, count)
        assert activity_of(program).total == naive(program), (config.name, seed)


@pytest.mark.parametrize("declared", [AT_ONCE, SPACED, GROUPS, (tally, echo, tinted), (leaky(2),)])
def test_extensions_count_as_the_naive_model(declared):
    config = vdla.extend(EXTENDED, *declared)
    for seed in (1, 2):
        program = random_verified_program(config, seed, 50)
        assert activity_of(program).total == naive(program), seed


# --- the parts of a program -----------------------------------------------------------------------


def test_instructions_sum_to_the_program():
    activity = activity_of(random_verified_program(TINY, 5, 60))
    halves = [activity.of(slice(0, 20)), activity.of(slice(20, None))]
    assert summed(halves) == activity.total
    assert activity.of([]) == {}
    assert activity.of(slice(3, 4)) == activity.of(3)


def test_addresses_move_bursts_only():
    program = random_verified_program(TINY, 3, 60)
    places = {name: at + 4096 - 2 * TINY.axi_bytes for name, at in place(program)[0].items()}
    there, here = activity_of(program, places).total, activity_of(program).total
    differing = {event for event in here.keys() | there.keys() if here.get(event) != there.get(event)}
    assert {event.action for event in differing} == {Action.BURST}


def test_an_empty_program_does_nothing():
    assert activity_of(random_verified_program(TINY, 1, 0)).total == {}


@pytest.mark.parametrize("burst_beats", [1, 3, 16, 256])
def test_bursts_of_runs_are_cut_as_beats_in_order(burst_beats):
    config = replace(Config.preset("pynq_z1"), burst_beats=burst_beats)
    rng = np.random.default_rng(1)
    first, beats = rng.integers(0, 2000, 40), rng.integers(0, 1500, 40)
    expected = [cut(config, range(at, at + n)) for at, n in zip(first.tolist(), beats.tolist(), strict=True)]
    assert bursts_of_runs(config, first, beats).tolist() == expected


def test_bursts_of_the_stream_begin_in_the_instruction_of_their_first_beat():
    config = replace(TINY, burst_beats=3)  # 8 beats an instruction
    assert bursts_of_stream(config, 0, 2, 8).tolist() == [3, 3]
    assert bursts_of_stream(config, 0, 3, 1).tolist() == [1, 0, 0]
    assert bursts_of_stream(config, 1023, 1, 8).tolist() == [4]  # a page ends behind the first beat


def test_events_are_named_by_part_action_and_width():
    assert str(MachineEvent("array", Action.MULTIPLY, 8, 4)) == "array multiply 8 x 4 bits"
    assert str(MachineEvent("reads", Action.BURST)) == "reads burst"


def test_a_document_has_every_event():
    document = activity_of(gemm_program(GemmTiling(TINY, 2, 4, 4, 2, 1))).to_dict()
    assert document["config"] == "tiny"
    assert {"part": "acc", "action": "write", "bits": 128, "other_bits": 0, "count": 2} in document["events"]
