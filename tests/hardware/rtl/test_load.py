# SPDX-License-Identifier: Apache-2.0
"""The load unit on a memory with random delays writes every entry to its place."""

import cocotb
import numpy as np
import pytest
from helpers.naive_function import Naive
from helpers.rtl.axi_memory import Storage
from helpers.rtl.burst_memory import BurstMemory
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate
from helpers.rtl.unit_pins import Commands, Ends, Tokens, commands, run_to_the_end, split, write_widths

from vdla.hardware.isa import Buffer, Load, Sync, Unit, columns, encode

BYTES = 1 << 16
LOADED = (Buffer.INP, Buffer.WGT, Buffer.SCL)


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny", "batch4"])
def test_the_load_unit_passes_its_bench(name):
    simulate("vdla_load", __file__, name)


def random_load(rng, machine, **bits):
    buffer = LOADED[rng.integers(len(LOADED))]
    pads = random_padding(rng, machine) if buffer == Buffer.INP and rng.random() < 0.6 else {}
    z, y, x = int(rng.integers(1, 3)), int(rng.integers(0, 5)), int(rng.integers(0, 5))
    y = y if any(pads.get(name) for name in ("y_before", "y_after")) else max(y, 1)
    x = x if any(pads.get(name) for name in ("x_before", "x_after")) else max(x, 1)
    where = places(rng, machine, buffer, z, y, x) if x and y else {}
    rows = y + pads.get("y_before", 0) + pads.get("y_after", 0)
    row = x + pads.get("x_before", 0) + pads.get("x_after", 0)
    room = machine.depths[buffer] - z * rows * row
    if room < 0:
        return random_load(rng, machine, **bits)
    sram = int(rng.choice([0, room, rng.integers(room + 1)]))
    return Load(buffer, sram=sram, z_size=z, y_size=y, x_size=x, **where, **pads, **bits)


def random_padding(rng, machine):
    pads = {name: int(rng.integers(0, 3)) for name in ("y_before", "y_after", "x_before", "x_after")}
    if rng.random() < 0.2:  # the widest fields: all eight bits
        pads = {str(rng.choice(list(pads))): int(rng.integers(128, 256))}
    if not any(pads.values()):
        return {}
    half = 1 << machine.inp_bits - 1
    return {**pads, "pad_value": int(rng.integers(-half, half))}


def places(rng, machine, buffer, z, y, x):
    row = x * machine.entry_bytes[buffer] // machine.axi_bytes
    y_stride = row + int(rng.choice([0, 0, 1, 3]))
    z_stride = y_stride * y + int(rng.choice([0, 0, 1, 7]))
    most = BYTES // machine.axi_bytes - z * z_stride
    return {"dram": int(rng.integers(most)), "y_stride": y_stride, "z_stride": z_stride}


class Buffers:
    """The buffers after the writes of the unit."""

    def __init__(self, bench, machine, naive):
        self.bench, self.machine, self.naive = bench, machine, naive
        self.entries = {b: naive.buffers[b].copy() for b in LOADED}
        self.widths = write_widths(machine)

    def drive(self):
        pass

    def sample(self):
        if not self.bench["write_valid_o"]:
            return
        write = split(self.bench["write_o"], self.widths)
        entry = self.entries[Buffer(write["buffer"])][write["index"]]
        if write["fill"]:
            value = write["pad_value"] - (write["pad_value"] >> 31 << 32)
            entry[:] = self.naive.padding({"pad_value": value}, Buffer(write["buffer"]))
            return
        begin, size = write["beat"] * self.machine.axi_bytes, self.machine.axi_bytes
        entry[begin : begin + size] = np.frombuffer(write["data"].to_bytes(size, "little"), np.uint8)


@cocotb.test()
async def data_are_written_where_the_instruction_says(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(16, dut):
        program = [random_instruction(rng, machine) for _ in range(25)]
        words = encode(machine, program)
        storage = Storage(BYTES, machine.axi_bytes)
        storage.bytes[:] = rng.integers(0, 256, BYTES)
        naive = Naive(machine, columns(machine, words), storage.bytes)
        for index in range(len(program)):
            naive.execute(index)
        memory = BurstMemory(bench, storage, rng, any_pattern(rng), any_pattern(rng), (1, int(rng.integers(2, 40))))
        queue = Commands(bench, commands(machine, words), any_pattern(rng))
        tokens = Tokens(bench, "next", any_pattern(rng), any_pattern(rng))
        buffers = Buffers(bench, machine, Naive(machine, columns(machine, words), storage.bytes))
        ends = Ends(bench)
        bench.models = [memory, queue, tokens, buffers, ends]
        bench["read_latency_i"] = 10
        await bench.reset()
        await run_to_the_end(bench, ends, len(program), 40_000)
        assert tokens.popped == sum(i.pop_next for i in program)
        assert tokens.pushed == sum(i.push_next for i in program)
        for buffer in LOADED:
            assert np.array_equal(buffers.entries[buffer], naive.buffers[buffer]), buffer


def random_instruction(rng, machine):
    bits = {"pop_next": int(rng.random() < 0.3), "push_next": int(rng.random() < 0.3)}
    return Sync(Unit.LOAD, **bits) if rng.random() < 0.1 else random_load(rng, machine, **bits)
