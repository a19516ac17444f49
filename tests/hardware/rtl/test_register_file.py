# SPDX-License-Identifier: Apache-2.0
"""The register file: the set-up, commands, the interrupt, values read after their delay.

Every address is read, and random ones are written, in random states of the machine.
"""

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench, config, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.generate.registers import (
    ADDRESS_BITS,
    COUNTER_STRIDE,
    COUNTERS_OFFSET,
    ID,
    OFFSETS,
    REGISTERS,
    UNIT_STRIDE,
    VERSION,
    ErrorCode,
    RegisterAccess,
    tokens_register,
)
from vdla.hardware.isa.units import QUEUES, UNITS

START, RESET = 1, 2
BUILD = 0x9A5F6C3BD2E1
ENABLE, PENDING = 1, 2
REGISTER_DELAY = 2


@pytest.mark.rtl
def test_the_registers_pass_their_bench():
    simulate("vdla_registers", __file__, Build=f"48'h{BUILD:x}")


async def write(bench, name, value, strobe=0xF):
    """Writes a register; returns whether it was refused. As the slave does, a cycle then passes."""
    return await write_at(bench, OFFSETS[name], value, strobe)


async def write_at(bench, offset, value, strobe):
    bench["write_i"], bench["write_addr_i"] = 1, offset
    bench["write_data_i"], bench["write_strb_i"] = value, strobe
    await bench.cycle()
    refused = bench["write_error_o"]
    bench["write_i"] = 0
    return refused


async def read(bench, name):
    bench["read_addr_i"] = OFFSETS[name]
    await bench.cycle(REGISTER_DELAY + 1)
    assert not bench["read_error_o"]
    return bench["read_data_o"]


@cocotb.test()
async def the_stream_has_both_words_of_its_address(dut):
    bench = Bench(dut)
    await bench.start()
    beat = config().axi_bytes
    for rng in seeds(4, dut):
        low, high = int(rng.integers(1 << 32)), int(rng.integers(1, 1 << 8))
        assert not await write(bench, "STREAM_LO", low)
        assert not await write(bench, "STREAM_HI", high)
        await bench.cycle()
        assert bench["base_o"] == (high << 32 | low) // beat * beat
        assert (await read(bench, "STREAM_LO"), await read(bench, "STREAM_HI")) == (low, high)


@cocotb.test()
async def an_interrupt_that_is_set_while_it_is_cleared_stays(dut):
    bench = Bench(dut)
    await bench.start()
    for over_at in range(-2, 3):  # relative to the clear
        await bench.reset()
        await write(bench, "INTERRUPT", ENABLE)
        for cycle in range(-3, 5):
            bench["over_i"] = cycle == over_at
            bench["write_i"], bench["write_addr_i"] = cycle == 0, OFFSETS["INTERRUPT"]
            bench["write_data_i"], bench["write_strb_i"] = ENABLE | PENDING, 1
            await bench.cycle()
        bench["over_i"] = bench["write_i"] = 0
        pending = over_at >= 0
        assert await read(bench, "INTERRUPT") == (ENABLE | PENDING if pending else ENABLE), over_at
        assert bench["irq_o"] == pending


@cocotb.test()
async def commands_are_pulses_and_a_reset_cancels_a_start(dut):
    bench = Bench(dut)
    await bench.start()
    cases = [(START, 0, False), (START, 1, True), (RESET, 1, False), (START | RESET, 0, False), (0, 0, False)]
    for value, busy, refused in cases:
        bench["busy_i"] = busy
        assert await write(bench, "CONTROL", value) == refused
        await bench.cycle()
        expected = (value == START and not refused, bool(value & RESET))
        assert (bench["start_o"], bench["reset_o"]) == expected, (value, busy)
        await bench.cycle()
        assert (bench["start_o"], bench["reset_o"]) == (0, 0)
    bench["busy_i"] = 0
    assert not await write(bench, "CONTROL", START | RESET, strobe=0b1110)
    await bench.cycle()
    assert (bench["start_o"], bench["reset_o"]) == (0, 0)


@cocotb.test()
async def a_hard_reset_withdraws_commands(dut):
    bench = Bench(dut)
    await bench.start()
    for value in (START, RESET):
        await write(bench, "CONTROL", value)
        await bench.reset()
        await bench.cycle()
        assert (bench["start_o"], bench["reset_o"]) == (0, 0)


@cocotb.test()
async def counters_are_selected_by_unit_class_and_half(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(2, dut):
        for _ in range(40):
            unit, counter, high = int(rng.integers(4)), int(rng.integers(9)), int(rng.integers(2))
            values = [int(rng.integers(1 << 48)) for _ in range(4)]
            bench["counters_i"] = sum(value << 48 * index for index, value in enumerate(values))
            bench["read_addr_i"] = 0x100 + 0x80 * unit + 8 * counter + 4 * high
            await bench.cycle(REGISTER_DELAY + 1)
            assert bench["counter_select_o"] == counter
            expected = values[unit] >> 32 if high else values[unit] & 0xFFFFFFFF
            assert (bench["read_data_o"], bench["read_error_o"]) == (expected, 0)


# --- random states and writes ---------------------------------------------------------------------

STATE = {  # the inputs that registers show, and these registers from the lowest bits upwards
    "error_i": ["ERROR"],
    "error_index_i": ["ERROR_INDEX"],
    "cycles_i": ["CYCLES_LO", "CYCLES_HI"],
    "dispatched_i": ["DISPATCHED"],
    "started_i": ["LOAD_STARTED", "COMPUTE_STARTED", "STORE_STARTED"],
    "ended_i": ["LOAD_ENDED", "COMPUTE_ENDED", "STORE_ENDED"],
    "commands_i": ["LOAD_COMMANDS", "COMPUTE_COMMANDS", "STORE_COMMANDS"],
    "tokens_i": [tokens_register(queue) for queue in QUEUES],
}
SETUP = ("STREAM_LO", "STREAM_HI", "COUNT", "READ_LATENCY", "READ_LIMIT", "WRITE_LIMIT")
TABLE = {register.name: register for register in REGISTERS}


def constants():
    """What the registers show that never change."""
    fingerprint = int(config().fingerprint, 16)
    low, high = fingerprint & 0xFFFFFFFF, fingerprint >> 32
    fixed = {"ID": ID, "VERSION": VERSION, "FINGERPRINT_LO": low, "FINGERPRINT_HI": high, "CONTROL": 0}
    return fixed | {"BUILD_LO": BUILD & 0xFFFFFFFF, "BUILD_HI": BUILD >> 32}


def random_bits(rng, bits):
    """A random number; all its bits are set in one of four cases."""
    return (1 << bits) - 1 if rng.random() < 0.25 else int.from_bytes(rng.bytes(8), "little") % (1 << bits)


def random_state(bench, rng):
    """Sets the inputs that registers show; returns the values by register."""
    values = {}
    for pin, names in STATE.items():
        bits = 32 if pin == "cycles_i" else len(getattr(bench.dut, pin)) // len(names)
        shown = [random_bits(rng, min(bits, TABLE[name].width)) for name in names]
        shown[0] %= len(ErrorCode) if pin == "error_i" else 1 << bits
        bench[pin] = sum(value << bits * place for place, value in enumerate(shown))
        values |= dict(zip(names, shown, strict=True))
    busy, done = (int(bit) for bit in rng.integers(2, size=2))
    bench["busy_i"], bench["done_i"] = busy, done
    return values | {"STATUS": busy | done << 1 | (values["ERROR"] != 0) << 2}


@cocotb.test()
async def every_address_reads_its_register_or_is_refused(dut):
    bench = Bench(dut)
    await bench.start()
    by_offset = {register.offset: register for register in REGISTERS if register.offset < COUNTERS_OFFSET}
    counters = {register.offset for register in REGISTERS} - set(by_offset)
    shown = constants() | {name: TABLE[name].reset for name in (*SETUP, "INTERRUPT")}
    for rng in seeds(2, dut):
        for offset in range(0, 1 << ADDRESS_BITS, 4):
            values = shown | random_state(bench, rng)
            selected = [random_bits(rng, 48) for _ in UNITS]
            bench["counters_i"] = sum(value << 48 * place for place, value in enumerate(selected))
            bench["read_addr_i"] = offset
            await bench.cycle(REGISTER_DELAY + 1)
            expected = 0
            if offset in by_offset:
                expected = values[by_offset[offset].name]
            elif offset in counters:
                unit, place = divmod(offset - COUNTERS_OFFSET, UNIT_STRIDE)
                expected = selected[unit] >> 32 * (place % COUNTER_STRIDE // 4) & 0xFFFFFFFF
            known = offset in by_offset or offset in counters
            assert (bench["read_data_o"], bench["read_error_o"]) == (expected, not known), hex(offset)


@cocotb.test()
async def random_writes_change_the_written_bytes_of_one_register_or_are_refused(dut):
    bench = Bench(dut)
    await bench.start()
    names = [register.name for register in REGISTERS if register.offset < COUNTERS_OFFSET]
    unknown = [offset for offset in range(0, 1 << ADDRESS_BITS, 4) if offset not in OFFSETS.values()]
    held = {name: TABLE[name].reset for name in SETUP}
    for rng in seeds(3, dut):
        for _ in range(300):
            name = str(rng.choice(SETUP if rng.random() < 0.8 else names))
            register = TABLE[name]
            value, strobe = random_bits(rng, 32), int(rng.choice([15, int(rng.integers(16))]))
            if register.limits and rng.random() < 0.7:
                value = int(rng.choice([0, 1, 2, 255, 256, 257, int(rng.integers(1, 257))]))
            busy = bench["busy_i"] = int(rng.random() < 0.1)
            offset = OFFSETS[name] if rng.random() < 0.95 else int(rng.choice(unknown))
            mask = sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
            merged = held.get(name, 0) & ~mask | value & mask
            least, most = register.limits or (0, 0xFFFFFFFF)
            refused = offset in unknown or register.access is RegisterAccess.RO
            refused |= name in SETUP and (bool(busy) or not least <= merged <= most)
            refused |= name == "CONTROL" and busy and strobe & 1 and value & (START | RESET) == START
            assert await write_at(bench, offset, value, strobe) == bool(refused), (name, hex(value), strobe, busy)
            if name in SETUP and not refused:
                held[name] = merged % (1 << register.width)
            await bench.cycle(2)  # a pulse of start_o or reset_o passes
            beat = config().axi_bytes
            assert setup(bench) == held | {"STREAM_LO": held["STREAM_LO"] // beat * beat}, (name, hex(value), strobe)


def setup(bench):
    """What the machine sees of the set-up, by register; of the stream its whole address."""
    base = bench["base_o"]
    return {
        "STREAM_LO": base & 0xFFFFFFFF,
        "STREAM_HI": base >> 32,
        "COUNT": bench["count_o"],
        "READ_LATENCY": bench["read_latency_o"],
        "READ_LIMIT": bench["read_limit_o"],
        "WRITE_LIMIT": bench["write_limit_o"],
    }
