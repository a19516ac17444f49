# SPDX-License-Identifier: Apache-2.0
"""The whole machine on stalling, slow and failing memories, with checkers on each bus."""

import cocotb
import numpy as np
import pytest
from helpers.rtl.axil_master import OKAY, SLVERR
from helpers.rtl.machine import BUSY, DONE, ENABLE, ERROR, PENDING, RESET, START, TIMEOUT_CYCLES, Machine
from helpers.rtl.odd_config import ODD
from helpers.rtl.rtl_bench import seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.config import Config
from vdla.hardware.generate.registers import ID, OFFSETS, REGISTERS, VERSION, ErrorCode, RegisterAccess
from vdla.hardware.isa import UNITS
from vdla.hardware.program import STREAM

BUILD = 0x9A5F6C3BD2E1


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize(
    "machine", [Config.preset("tiny"), pytest.param(ODD, marks=pytest.mark.long)], ids=["tiny", "odd"]
)
def test_the_whole_machine_passes_its_bench(machine):
    simulate("vdla", __file__, machine, binds=["axi_read_bind", "axi_write_bind", "axil_bind"], Build=f"48'h{BUILD:x}")


async def machine_of(dut):
    machine = Machine(dut)
    machine.attach(np.random.default_rng(0), calm=True)
    await machine.bench.start()
    return machine


# --- registers ------------------------------------------------------------------------------------


@cocotb.test()
async def registers_equal_the_table(dut):
    machine = await machine_of(dut)
    fingerprint = int(machine.config.fingerprint, 16)
    fixed = {"ID": ID, "VERSION": VERSION}
    fixed |= {"FINGERPRINT_LO": fingerprint & 0xFFFFFFFF, "FINGERPRINT_HI": fingerprint >> 32}
    fixed |= {"BUILD_LO": BUILD & 0xFFFFFFFF, "BUILD_HI": BUILD >> 32}
    for rng in seeds(2, dut):
        await machine.power_up(rng)
        for register in REGISTERS:
            assert await machine.read(register.name) == fixed.get(register.name, register.reset), register.name
        for register in REGISTERS:
            await access(machine, register, rng)


async def access(machine, register, rng):
    value, mask = int(rng.integers(1 << 32)), (1 << register.width) - 1
    before = await machine.read(register.name)
    if register.access is RegisterAccess.RO:
        await machine.write(register.name, value, SLVERR)
        assert await machine.read(register.name) == before, register.name
    if register.limits is not None:
        await limited(machine, register)
    elif register.access is RegisterAccess.RW:
        await machine.write(register.name, value)
        assert await machine.read(register.name) == value & mask, register.name
        assert await machine.port.write(register.offset, ~value & 0xFFFFFFFF, 0b0101) == OKAY
        lanes = 0x00FF00FF
        assert await machine.read(register.name) == (value & ~lanes | ~value & lanes) & mask, register.name


async def limited(machine, register):
    """A value outside of the limits is refused, also where a byte of the old one makes it so."""
    least, most = register.limits
    for value in (least, most, 0x12):
        await machine.write(register.name, value)
        for refused in (least - 1, most + 1, 0x1FF, 0x10000 | value, 0x80000000):
            await machine.write(register.name, refused, SLVERR)
            assert await machine.read(register.name) == value, (register.name, hex(refused))
    assert await machine.port.write(register.offset, 0x100, 0b0010) == SLVERR  # 0x112
    assert await machine.port.write(register.offset, 0x134, 0b0001) == OKAY
    assert await machine.read(register.name) == 0x34
    await machine.write(register.name, register.reset)


@cocotb.test()
async def addresses_without_a_register_return_an_error(dut):
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


# --- programs -------------------------------------------------------------------------------------


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
async def random_programs_leave_the_memory_of_the_simulator(dut):
    machine = await machine_of(dut)
    for rng in seeds(8, dut):
        machine.random_program(rng, 40)
        await machine.power_up(rng)
        await machine.run_correctly()


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
async def a_busy_machine_refuses_writes(dut):
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


@cocotb.test()
async def a_disabled_interrupt_is_only_pending(dut):
    machine = await machine_of(dut)
    for rng in seeds(2, dut):
        await machine.power_up(rng)
        await machine.start(count=0)
        await machine.write("INTERRUPT", 0)
        await idle(machine)
        assert (await machine.read("INTERRUPT"), machine.bench["irq_o"]) == (PENDING, 0)
        await machine.write("INTERRUPT", ENABLE)
        await machine.bench.cycle()
        assert machine.bench["irq_o"] == 1
        await machine.write("INTERRUPT", PENDING)
        assert await machine.read("INTERRUPT") == 0


# --- errors ---------------------------------------------------------------------------------------


@cocotb.test()
async def a_bus_error_stops_the_machine_and_is_reported(dut):
    machine = await machine_of(dut)
    owners = {
        STREAM: ErrorCode.FETCH,
        "uops": ErrorCode.COMPUTE,
        "inp": ErrorCode.LOAD,
        "wgt": ErrorCode.LOAD,
        "scl": ErrorCode.LOAD,
    }
    owners["out"] = ErrorCode.STORE
    for rng in seeds(3, dut):
        for name, error in owners.items():
            await machine.power_up(rng)
            machine.storage.errors = {machine.addresses[name] // 4096: int(rng.choice([2, 3]))}
            await machine.start()
            assert await machine.finish() == ERROR, name
            assert await machine.read("ERROR") == error, name
            index = await machine.read("ERROR_INDEX")
            assert 0 <= index < len(machine.program.words)
            assert machine.quiet, name
            machine.attach(rng)
            await machine.run_correctly()


@cocotb.test()
async def an_invalid_instruction_is_reported_with_its_index(dut):
    machine = await machine_of(dut)
    stream, nbytes = machine.addresses[STREAM], machine.program.words.shape[1]
    for rng in seeds(4, dut):
        await machine.power_up(rng)
        index = int(rng.integers(len(machine.program.words)))
        machine.storage.bytes[stream + index * nbytes] &= 0xF8  # an unused opcode
        await machine.start()
        assert await machine.finish() == ERROR
        assert (await machine.read("ERROR"), await machine.read("ERROR_INDEX")) == (ErrorCode.INSTRUCTION, index)
        assert await machine.read("DISPATCHED") == index
        assert machine.quiet
        machine.attach(rng)
        await machine.run_correctly()


@cocotb.test()
async def a_reset_at_any_time_leaves_a_machine_that_works(dut):
    machine = await machine_of(dut)
    for rng in seeds(20, dut):
        await machine.power_up(rng)
        await machine.start()
        await machine.bench.cycle(int(rng.integers(1, 1500)))
        for _ in range(int(rng.integers(1, 3))):  # a second reset may come during the first
            await machine.write("CONTROL", RESET)
        await idle(machine)
        assert machine.quiet
        assert await machine.read("STATUS") == 0
        machine.attach(rng)
        await machine.write("INTERRUPT", PENDING)
        await machine.run_correctly()


async def idle(machine):
    for _ in range(TIMEOUT_CYCLES):
        if not await machine.read("STATUS") & BUSY:
            return
    raise TimeoutError("a reset must end")
