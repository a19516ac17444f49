# SPDX-License-Identifier: Apache-2.0
"""The store unit on a memory with random delays, with a protocol checker on the bus."""

import cocotb
import numpy as np
import pytest
from helpers.naive_function import Naive
from helpers.rtl.axi_memory import Storage, WriteMemory
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate
from helpers.rtl.unit_pins import Commands, Ends, Tokens, commands, run_to_the_end

from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Store, Sync, Unit, columns, encode
from vdla.verification.programs.random_machines import FOUR_PORTS, TWO_PORTS

BYTES = 1 << 16
STORING = [Config.preset("tiny"), Config.preset("batch4"), TWO_PORTS, FOUR_PORTS]


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("machine", STORING, ids=lambda machine: machine.name)
def test_the_store_unit_passes_its_bench(machine):
    simulate("vdla_store", __file__, machine, binds=["axi_write_bind"])


def random_instruction(rng, machine):
    bits = {"pop_prev": int(rng.random() < 0.3), "push_prev": int(rng.random() < 0.3)}
    if rng.random() < 0.1:
        return Sync(Unit.STORE, **bits)
    z, y, x = (int(size) for size in rng.integers(1, 5, 3))
    row = x * machine.out_entry_bytes // machine.axi_bytes
    y_stride = row + int(rng.choice([0, 0, 1, 3]))
    z_stride = y_stride * y + int(rng.choice([0, 0, 1, 7]))
    dram = int(rng.integers(BYTES // machine.axi_bytes - z * z_stride))
    sram = int(rng.integers(machine.out_depth - z * y * x + 1))
    return Store(sram, dram, z, y, x, z_stride, y_stride, **bits)


class OutBuffer:
    """The output buffer as a synchronous RAM that holds its output."""

    def __init__(self, bench, entries):
        self.bench, self.entries = bench, entries
        self.entry = 0

    def drive(self):
        self.bench["out_entry_i"] = self.entry

    def sample(self):
        if self.bench["out_re_o"]:
            self.entry = int.from_bytes(self.entries[self.bench["out_index_o"]].tobytes(), "little")


class Outstanding:
    """What the memory has been offered, or owes, is outstanding: a reset must wait for it."""

    def __init__(self, bench, memory, halts):
        self.bench, self.memory, self.halts = bench, memory, halts
        self.halt, self.before = False, False

    def drive(self):
        self.halt = next(self.halts)
        self.bench["halt_i"] = self.halt
        memory = self.memory
        self.owed = bool(memory.addresses or memory.data or memory.beats or memory.responses)

    def sample(self):
        bench = self.bench
        offered = bench["m_axi_awvalid_o"] or bench["m_axi_wvalid_o"]
        assert bench["outstanding_o"] or not (offered or self.owed)
        assert not (self.halt and offered and not self.before), "no burst begins under halt"
        self.before = bool(bench["outstanding_o"]) or not self.halt


class Errors:
    """Counts error responses, and those that the unit reports."""

    def __init__(self, bench):
        self.bench, self.answered, self.reported = bench, 0, 0

    def drive(self):
        pass

    def sample(self):
        bench = self.bench
        taken = bench["m_axi_bvalid_i"] and bench["m_axi_bready_o"]
        self.answered += taken and bench["m_axi_bresp_i"] >> 1
        self.reported += bench["error_o"]


@cocotb.test()
async def results_are_stored_in_memory(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(16, dut):
        program = [random_instruction(rng, machine) for _ in range(20)]
        words = encode(machine, program)
        storage = Storage(BYTES, machine.port_bits // 8)
        if rng.random() < 0.3:
            storage.errors = {int(page): int(rng.choice([2, 3])) for page in rng.integers(0, 16, 3)}
        naive = Naive(machine, columns(machine, words), storage.bytes.copy())
        naive.buffers[Buffer.OUT][:] = rng.integers(0, 256, naive.buffers[Buffer.OUT].shape)
        for index in range(len(program)):
            naive.execute(index)
        latency = (1, int(rng.integers(2, 40)))
        order = str(rng.choice(["any", "address", "data"]))
        memory = WriteMemory(bench, storage, rng, any_pattern(rng), any_pattern(rng), latency, order)
        queue = Commands(bench, commands(machine, words), any_pattern(rng))
        tokens = Tokens(bench, "prev", any_pattern(rng), any_pattern(rng))
        ends, errors = Ends(bench), Errors(bench)
        outstanding = Outstanding(bench, memory, halts_now_and_then(rng))
        out = OutBuffer(bench, naive.buffers[Buffer.OUT])
        bench.models = [memory, out, queue, tokens, ends, errors, outstanding]
        bench["write_limit_i"] = int(rng.choice([1, 2, 8, 256]))
        await bench.reset()
        await run_to_the_end(bench, ends, len(program), 40_000)
        assert (tokens.popped, tokens.pushed) == (sum(i.pop_prev for i in program), sum(i.push_prev for i in program))
        assert np.array_equal(storage.bytes, naive.dram)
        assert errors.answered == errors.reported
        assert bench["outstanding_o"] == 0


def halts_now_and_then(rng):
    pauses = rng.random() < 0.5
    while True:
        yield from [False] * int(rng.integers(1, 80))
        yield from [pauses] * int(rng.integers(1, 30))
