"""The register file: the set-up, commands, the interrupt, values read after their delay."""

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench, config, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.generate.registers import OFFSETS

START, RESET = 1, 2
ENABLE, PENDING = 1, 2
REGISTER_DELAY = 2


@pytest.mark.rtl
def test_the_registers_pass_their_bench():
    simulate("vdla_registers", __file__)


async def write(bench, name, value, strobe=0xF):
    """Writes a register; returns whether it was refused. As the slave does, a cycle then passes."""
    bench["write_i"], bench["write_addr_i"] = 1, OFFSETS[name]
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
