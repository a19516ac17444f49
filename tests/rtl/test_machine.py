"""The whole machine on memories that stall, answer late and fail, with a protocol checker on each of its buses."""

import cocotb
import numpy as np
import pytest
from axi_memory import ReadMemory, Storage, WriteMemory
from axil_master import OKAY, SLVERR, AxiLite
from programs import small_gemm
from rtl_bench import Bench, any_pattern, config, pattern, seeds
from rtl_runner import simulate

from vdla.hardware.numerics import pack_elements
from vdla.hardware.program import STREAM, place
from vdla.hardware.registers import ID, OFFSETS, REGISTERS, VERSION, Access, Error, counter_offset
from vdla.hardware.timing import COUNTERS, UNITS

START, RESET = 1, 2
BUSY, DONE, ERROR = 1, 2, 4
ENABLE, PENDING = 1, 2
BASE = 0x10000
TIMEOUT_CYCLES = 100_000


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny"])
def test_machine(name):
    simulate("vdla", __file__, name, binds=["axi_read_bind", "axi_write_bind", "axil_bind"])


class Machine:
    """The machine with its memory, and a program in it."""

    def __init__(self, dut):
        self.config = config()
        self.bench = Bench(dut)
        self.program, arrays, self.expected = small_gemm(self.config)
        self.addresses, end = place(self.program, BASE)
        self.image = np.zeros(end, np.uint8)
        self.put(STREAM, self.program.link(self.addresses))
        for tensor in self.program.tensors:
            if tensor.data is not None:
                self.put(tensor.name, np.frombuffer(tensor.data, np.uint8))
        bits = {"inp": self.config.inp_bits, "wgt": self.config.wgt_bits}
        for name, values in arrays.items():
            self.put(name, pack_elements(values, bits[name]) if name in bits else np.ascontiguousarray(values))
        self.result = pack_elements(self.expected, self.config.out_bits).ravel().view(np.uint8)

    def put(self, name, values):
        data = np.ascontiguousarray(values).view(np.uint8).ravel()
        self.image[self.addresses[name] : self.addresses[name] + data.size] = data

    def attach(self, rng, calm=False):
        """Fresh memories with random habits; calm ones do as well as the timing contract assumes."""
        self.storage = Storage(self.image.size, self.config.axi_bytes)
        self.storage.bytes[:] = self.image
        habits = [pattern("always", rng) if calm else any_pattern(rng) for _ in range(4)]
        latency = (1, 2) if calm else (1, int(rng.integers(2, 60)))
        order = "any" if calm else str(rng.choice(["any", "address", "data"]))
        self.reads = ReadMemory(self.bench, self.storage, rng, *habits[:2], latency, not calm and rng.random() < 0.5)
        self.writes = WriteMemory(self.bench, self.storage, rng, *habits[2:], latency, order)
        self.bench.models = [self.reads, self.writes]
        self.port = AxiLite(self.bench, rng, 0 if calm else int(rng.integers(4)))

    async def power_up(self, rng, calm=False):
        self.attach(rng, calm)
        await self.bench.reset()

    async def write(self, name, value, expected=OKAY):
        assert await self.port.write(OFFSETS[name], value) == expected, name

    async def read(self, name):
        value, response = await self.port.read(OFFSETS[name])
        assert response == OKAY, name
        return value

    async def read_pair(self, offset):
        low, high = [await self.port.read(offset + half) for half in (0, 4)]
        return low[0] | high[0] << 32

    async def start(self, count=None):
        """Set the stream up and start it."""
        address = self.addresses[STREAM]
        await self.write("STREAM_LO", address & 0xFFFFFFFF)
        await self.write("STREAM_HI", address >> 32)
        await self.write("COUNT", len(self.program.words) if count is None else count)
        await self.write("READ_LIMIT", self.config.dram.outstanding_reads)
        await self.write("WRITE_LIMIT", self.config.dram.outstanding_writes)
        await self.write("INTERRUPT", ENABLE | PENDING)
        await self.write("CONTROL", START)

    async def finish(self):
        """Wait for the interrupt; the status."""
        await self.bench.until("irq_o", 1, TIMEOUT_CYCLES)
        assert await self.read("INTERRUPT") == ENABLE | PENDING
        await self.write("INTERRUPT", ENABLE | PENDING)
        await self.bench.cycle()  # the line comes from a register
        assert self.bench["irq_o"] == 0
        return await self.read("STATUS")

    async def run_correctly(self):
        """Run the program; its results are right, and nothing else in memory has changed."""
        await self.start()
        assert await self.finish() == DONE
        assert await self.read("ERROR") == Error.NONE
        wanted = self.image.copy()
        out = self.addresses["out"]
        wanted[out : out + self.result.size] = self.result
        assert np.array_equal(self.storage.bytes, wanted), np.flatnonzero(self.storage.bytes != wanted)[:8]

    async def counters(self):
        return {unit: [await self.read_pair(counter_offset(unit, name)) for name in COUNTERS] for unit in UNITS}


async def machine_of(dut):
    machine = Machine(dut)
    machine.attach(np.random.default_rng(0), calm=True)
    await machine.bench.start()
    return machine


# --- registers


@cocotb.test()
async def registers_are_those_of_the_table(dut):
    machine = await machine_of(dut)
    fingerprint = int(machine.config.fingerprint, 16)
    fixed = {"ID": ID, "VERSION": VERSION}
    fixed |= {"FINGERPRINT_LO": fingerprint & 0xFFFFFFFF, "FINGERPRINT_HI": fingerprint >> 32}
    for rng in seeds(2, dut):
        await machine.power_up(rng)
        for register in REGISTERS:
            assert await machine.read(register.name) == fixed.get(register.name, register.reset), register.name
        for register in REGISTERS:
            await access(machine, register, rng)


async def access(machine, register, rng):
    value, mask = int(rng.integers(1 << 32)), (1 << register.width) - 1
    before = await machine.read(register.name)
    if register.access is Access.RO:
        await machine.write(register.name, value, SLVERR)
        assert await machine.read(register.name) == before, register.name
    if register.access is Access.RW:
        await machine.write(register.name, value)
        assert await machine.read(register.name) == value & mask, register.name
        assert await machine.port.write(register.offset, ~value & 0xFFFFFFFF, 0b0101) == OKAY
        lanes = 0x00FF00FF
        assert await machine.read(register.name) == (value & ~lanes | ~value & lanes) & mask, register.name


@cocotb.test()
async def addresses_without_a_register_answer_with_an_error(dut):
    machine = await machine_of(dut)
    known = set(OFFSETS.values())
    for rng in seeds(1, dut):
        await machine.power_up(rng)
        for offset in range(0, 4096, 4):
            if offset in known:
                continue
            value, response = await machine.port.read(offset)
            assert (value, response) == (0, SLVERR), hex(offset)
            assert await machine.port.write(offset, 0xFFFFFFFF) == SLVERR, hex(offset)
        assert await machine.read("STATUS") == 0


# --- programs


@cocotb.test()
async def a_program_is_right_under_any_stalls(dut):
    machine = await machine_of(dut)
    for rng in seeds(12, dut):
        await machine.power_up(rng)
        await machine.run_correctly()
        assert await machine.read("DISPATCHED") == len(machine.program.words)
        cycles = await machine.read_pair(OFFSETS["CYCLES_LO"])
        for unit, values in (await machine.counters()).items():
            assert sum(values) == cycles, (unit, values)
        for unit in UNITS[1:]:
            started = await machine.read(f"{unit}_STARTED".upper())
            assert started == await machine.read(f"{unit}_ENDED".upper())
            assert await machine.read(f"{unit}_COMMANDS".upper()) == 0


@cocotb.test()
async def an_empty_stream_takes_no_cycles(dut):
    machine = await machine_of(dut)
    for rng in seeds(2, dut):
        await machine.power_up(rng)
        await machine.start(count=0)
        assert await machine.finish() == DONE
        assert await machine.read_pair(OFFSETS["CYCLES_LO"]) == 0
        assert sum(map(sum, (await machine.counters()).values())) == 0
        assert machine.reads.accepted == []


@cocotb.test()
async def a_busy_machine_refuses_to_be_changed(dut):
    machine = await machine_of(dut)
    for rng in seeds(2, dut):
        await machine.power_up(rng)
        await machine.start()
        assert await machine.read("STATUS") == BUSY
        for name in ("STREAM_LO", "STREAM_HI", "COUNT", "READ_LATENCY", "READ_LIMIT", "WRITE_LIMIT"):
            before = await machine.read(name)
            await machine.write(name, before ^ 1, SLVERR)
            assert await machine.read(name) == before
        await machine.write("CONTROL", START, SLVERR)
        assert await machine.finish() == DONE


# --- errors


@cocotb.test()
async def a_bus_error_stops_the_machine_and_is_reported(dut):
    machine = await machine_of(dut)
    owners = {STREAM: Error.FETCH, "uops": Error.COMPUTE, "inp": Error.LOAD, "wgt": Error.LOAD, "scl": Error.LOAD}
    owners["out"] = Error.STORE
    for rng in seeds(3, dut):
        for name, error in owners.items():
            await machine.power_up(rng)
            machine.storage.errors = {machine.addresses[name] // 4096: int(rng.choice([2, 3]))}
            await machine.start()
            assert await machine.finish() == ERROR, name
            assert await machine.read("ERROR") == error, name
            index = await machine.read("ERROR_INDEX")
            assert 0 <= index < len(machine.program.words)
            assert quiet(machine), name
            machine.attach(rng)
            await machine.run_correctly()


def quiet(machine):
    """Whether memory owes the machine nothing."""
    reads, writes = machine.reads, machine.writes
    return not (reads.bursts or writes.addresses or writes.data or writes.beats or writes.responses)


@cocotb.test()
async def an_invalid_instruction_is_reported_with_its_index(dut):
    machine = await machine_of(dut)
    stream, nbytes = machine.addresses[STREAM], machine.program.words.shape[1]
    for rng in seeds(4, dut):
        await machine.power_up(rng)
        index = int(rng.integers(len(machine.program.words)))
        machine.storage.bytes[stream + index * nbytes] &= 0xF8  # an opcode that is none
        await machine.start()
        assert await machine.finish() == ERROR
        assert (await machine.read("ERROR"), await machine.read("ERROR_INDEX")) == (Error.INSTRUCTION, index)
        assert await machine.read("DISPATCHED") == index
        assert quiet(machine)
        machine.attach(rng)
        await machine.run_correctly()


@cocotb.test()
async def a_reset_at_any_time_leaves_a_machine_that_works(dut):
    machine = await machine_of(dut)
    for rng in seeds(20, dut):
        await machine.power_up(rng)
        await machine.start()
        await machine.bench.cycle(int(rng.integers(1, 1500)))
        await machine.write("CONTROL", RESET)
        await idle(machine)
        assert quiet(machine)
        assert await machine.read("STATUS") == 0
        machine.attach(rng)
        await machine.write("INTERRUPT", PENDING)
        await machine.run_correctly()


async def idle(machine):
    for _ in range(TIMEOUT_CYCLES):
        if not await machine.read("STATUS") & BUSY:
            return
    raise TimeoutError("a reset must end")
