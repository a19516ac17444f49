# SPDX-License-Identifier: Apache-2.0
"""The compute unit on kernels that reuse few entries: every hazard, exact in cycles and bits."""

import cocotb
import numpy as np
import pytest
from helpers.naive_function import Naive
from helpers.rtl.axi_memory import Storage
from helpers.rtl.burst_memory import BurstMemory
from helpers.rtl.odd_config import ODD
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate
from helpers.rtl.unit_pins import Commands, Ends, Tokens, commands, join, run_to_the_end, write_widths

from vdla.hardware.config import Config
from vdla.hardware.isa import (
    Buffer,
    Emit,
    Gemm,
    Load,
    MicroOp,
    Opcode,
    Operand,
    Source,
    Sync,
    Unit,
    Vector,
    VectorOp,
    columns,
    encode,
    encode_uops,
)
from vdla.hardware.numerics import pack_scale
from vdla.hardware.timing import ISSUE_DELAY, accumulator_half, compute_depth

UOPS = 16
FILLED = 32  # entries of inp, wgt and scl
ENTRIES = 12  # entries of each half of the accumulator that are loaded
UOP_AT, ACC_AT, WIDE_AT = 0, 0x2000, 0x3000


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("machine", [Config.preset("tiny"), ODD], ids=["tiny", "odd"])
def test_the_compute_unit_passes_its_bench(machine):
    simulate("vdla_compute", __file__, machine)


# --- programs -------------------------------------------------------------------------------------


def random_program(rng, machine):
    """Loads of micro-ops and sums, random work on few entries, then all sums emitted raw."""
    half = machine.acc_depth // 2
    beats = machine.axi_bytes
    yield Load(Buffer.UOP, dram=UOP_AT // beats, x_size=UOPS)
    yield Load(Buffer.ACC, dram=ACC_AT // beats, x_size=ENTRIES)
    pads = {"x_before": 2, "x_after": 1, "pad_value": int(rng.integers(-9, 9))}
    yield Load(Buffer.ACC, sram=half, dram=WIDE_AT // beats, x_size=ENTRIES - 3, widen=1, **pads)
    for _ in range(30):
        yield random_work(rng, machine)
    for side in range(2):
        dump = {"operand": Operand.IMM, "emit": Emit.RAW, "loop0": ENTRIES, "acc0": 1, "uop_begin": UOPS - 1}
        yield Vector(VectorOp.ADD, acc=side * half, out=side * ENTRIES, uop_end=UOPS, **dump)


def random_uops(rng):
    uops = [MicroOp(*(int(v) for v in rng.integers(0, (4, 4, 4, 2, 2)))) for _ in range(UOPS - 1)]
    return [*uops, MicroOp(0, 0, 0, 0, 1)]


def random_work(rng, machine):
    tokens = {name: int(rng.random() < 0.2) for name in ("pop_prev", "pop_next", "push_prev", "push_next")}
    kind = rng.random()
    if kind < 0.05:
        return Sync(Unit.COMPUTE, **tokens)
    work = {**tokens, **loops(rng), **emission(rng, machine), "acc": entry(rng, machine)}
    if kind < 0.5:
        return Gemm(**work, **indices(rng, "src"), **indices(rng, "wgt"))
    op, operand = VectorOp(int(rng.integers(10))), Operand(int(rng.integers(3)))
    if operand == Operand.SRC or op == VectorOp.MAC:
        work |= indices(rng, "src") | {"source": Source(int(rng.integers(2)))}
        if work["source"] == Source.ACC:
            work["src"] = entry(rng, machine)
    if operand == Operand.WGT:
        work |= indices(rng, "wgt")
    if operand == Operand.IMM:
        work["imm"] = int(rng.choice([0, 1, -1, 31, 5, -(1 << 15), rng.integers(-(1 << 15), 1 << 15)]))
    return Vector(op, operand, **work)


def loops(rng):
    begin = int(rng.integers(UOPS - 1))
    sizes = {"uop_begin": begin, "uop_end": int(rng.integers(begin + 1, UOPS)), "init": int(rng.integers(2))}
    return {**sizes, "loop0": int(rng.integers(1, 4)), "loop1": int(rng.integers(1, 4)), **steps(rng, "acc")}


def steps(rng, name):
    return {f"{name}0": int(rng.integers(3)), f"{name}1": int(rng.integers(2))}


def indices(rng, name):
    return {name: int(rng.integers(4)), **steps(rng, name)}


def entry(rng, machine):
    return int(rng.integers(2)) * machine.acc_depth // 2 + int(rng.integers(3))


def emission(rng, machine):
    emit = Emit(int(rng.integers(3)))
    if emit == Emit.NONE:
        return {}
    room = (machine.out_slots if emit == Emit.RAW else machine.out_depth) - ENTRIES
    fields = {"emit": emit, "out": int(rng.integers(room + 1))}
    if emit == Emit.REQUANT:
        half = 1 << machine.out_bits - 1
        zero, low, high = (int(v) for v in np.sort(rng.integers(-half, half, 3))[[1, 0, 2]])
        fields |= {"zero_point": zero, "clip_lo": low, "clip_hi": high, **indices(rng, "scl")}
    return fields


# --- around the unit ------------------------------------------------------------------------------


class Times:
    """The cycles in which instructions start and end."""

    def __init__(self, bench):
        self.bench, self.starts, self.ends = bench, [], []

    def drive(self):
        pass

    def sample(self):
        if self.bench["cmd_take_o"]:
            self.starts.append(self.bench.time)
        if self.bench["ended_o"]:
            self.ends.append(self.bench.time)


def memory_image(rng, machine, uops):
    storage = Storage(1 << 14, machine.axi_bytes)
    storage.bytes[:] = rng.integers(0, 256, storage.bytes.size)
    table = encode_uops(machine, uops).ravel()
    storage.bytes[UOP_AT : UOP_AT + table.size] = table
    return storage


async def fill(bench, rng, machine, naive):
    """Fills inp, wgt and scl of module and model, as the load unit does."""
    widths = write_widths(machine)
    for buffer in (Buffer.INP, Buffer.WGT, Buffer.SCL):
        entries = naive.buffers[buffer][:FILLED]
        entries[:] = rng.integers(0, 256, entries.shape)
        if buffer == Buffer.SCL:
            entries[: FILLED // 2] = useful_scales(rng, FILLED // 2, machine)
        for index, data in enumerate(entries):
            for beat, part in enumerate(data.reshape(-1, machine.axi_bytes)):
                value = int.from_bytes(part.tobytes(), "little")
                write = {"buffer": buffer, "index": index, "beat": beat, "data": value}
                bench["load_write_valid_i"], bench["load_write_i"] = 1, join(write, widths)
                await bench.cycle()
    bench["load_write_valid_i"] = 0


def useful_scales(rng, count, machine):
    """Requantisation parameters that scale sums into the range of results."""
    shape = (count, machine.block_out)
    lanes = pack_scale(rng.integers(-99, 99, shape), rng.integers(1, 1 << 24, shape), rng.integers(20, 40, shape))
    return lanes.view(np.uint8).reshape(count, -1)


async def out_entries(bench, machine):
    """The entry that the store unit would read."""
    entries = []
    for index in range(machine.out_depth):
        bench["out_re_i"], bench["out_index_i"] = 1, index
        await bench.cycle()
        bench["out_re_i"] = 0
        await bench.cycle()
        entries.append(bench["out_entry_o"].to_bytes(machine.out_entry_bytes, "little"))
    return np.frombuffer(b"".join(entries), np.uint8).reshape(machine.out_depth, -1)


def stalls(naive, machine, r):
    """Iterations of a VECTOR that read two entries of one half of the accumulator, or multiply what
    the iteration before them wrote."""
    if r["opcode"] != Opcode.VECTOR or r["op"] == VectorOp.MOV:
        return 0
    macs = r["op"] == VectorOp.MAC
    source = r["source"] == Source.ACC and (r["operand"] == Operand.SRC or macs)
    count, written = 0, None
    for u, off, s, _, _ in naive.iterations(r):
        a, starts = r["acc"] + off, r["init"] and u.first
        reads = {s} if source else set()
        factors = reads if macs else set()
        if r["op"] == VectorOp.MUL and not starts:
            factors = reads | {a}
        conflict = source and not starts and accumulator_half(machine, a) == accumulator_half(machine, s)
        count += conflict or written in factors
        written = a
    return count


@cocotb.test()
async def hazards_are_resolved_in_the_cycles_of_the_contract(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(12, dut):
        words = encode(machine, list(random_program(rng, machine)))
        storage = memory_image(rng, machine, random_uops(rng))
        naive = Naive(machine, columns(machine, words), storage.bytes)
        bench.models = []
        await bench.reset()
        await fill(bench, rng, machine, naive)
        known = await out_entries(bench, machine)
        naive.buffers[Buffer.OUT][:] = known
        sides = [Tokens(bench, side, any_pattern(rng), any_pattern(rng)) for side in ("prev", "next")]
        memory = BurstMemory(bench, storage, rng, any_pattern(rng), any_pattern(rng))
        ends, times = Ends(bench), Times(bench)
        bench.models = [memory, Commands(bench, commands(machine, words), any_pattern(rng)), *sides, ends, times]
        await run_to_the_end(bench, ends, len(words), 60_000)
        bench.models = []
        check_times(naive, machine, times, run_model(naive, machine))
        assert np.array_equal(await out_entries(bench, machine), naive.buffers[Buffer.OUT])


def run_model(naive, machine):
    """Executes everything; returns the duration of each GEMM and VECTOR, None for others."""
    durations = []
    for index, row in enumerate(naive.rows):
        naive.execute(index)
        looped = row["opcode"] in (Opcode.GEMM, Opcode.VECTOR)
        count = sum(1 for _ in naive.iterations(row)) if looped else 0
        last = count + stalls(naive, machine, row) + ISSUE_DELAY
        issue = count if row["opcode"] == Opcode.GEMM else last
        durations.append((issue, last + compute_depth(machine)) if looped else None)
    return durations


def check_times(naive, machine, times, durations):
    free = last = -1
    for index, (row, start, end, duration) in enumerate(
        zip(naive.rows, times.starts, times.ends, durations, strict=True)
    ):
        assert start >= free, index
        if duration is not None:
            issue, whole = duration
            earliest = max(start + whole, last + 1)
            blocked = row["push_prev"] or row["push_next"]
            assert end >= earliest if blocked else end == earliest, index
            free = start + issue
        last = end
