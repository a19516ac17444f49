# SPDX-License-Identifier: Apache-2.0
"""The cycle counters of a unit against a naive model, over several runs."""

from collections import Counter

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.isa import COUNTERS

COMMANDS = COUNTERS.index("commands")
FOLD_DELAY = 3
COUNTER_BITS = 48


@pytest.mark.rtl
def test_the_counters_pass_their_bench():
    simulate("vdla_counters", __file__, registers=("memory_q", "commands_q"))


class Cycles:
    """The counts of a run: tentative cycles wait until one that is not tentative follows."""

    def __init__(self):
        self.counts, self.tentative = Counter(), Counter()

    def add(self, number, tentative):
        if tentative:
            self.tentative[number] += 1
        else:
            self.counts[COMMANDS] += self.tentative.total()
            self.tentative.clear()
            self.counts[number] += 1


async def run(bench, rng, cycles):
    """Counts most of the cycles, and none of those after the run, whatever they are."""
    model, before = Cycles(), None
    for cycle in range(cycles + 1 + FOLD_DELAY):
        counts = before is not None and cycle <= cycles and rng.random() < 0.9
        if counts:
            model.add(*before)
        number = int(rng.integers(len(COUNTERS)))
        before = number, bool(number != COMMANDS and rng.random() < 0.7)
        bench["run_i"] = counts
        bench["class_i"], bench["tentative_i"] = before
        await bench.cycle()
    return model


async def value(bench, number):
    bench["select_i"] = number
    await bench.cycle(2)
    return bench["value_o"]


@cocotb.test()
async def counters_have_all_their_bits(dut):
    """Values that no run reaches in a test, put into the memory of the counters."""
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(4, dut):
        await bench.reset()
        await run(bench, rng, 200)
        wanted = [int(rng.integers(1 << COUNTER_BITS)) for _ in COUNTERS]
        for number, count in enumerate(wanted):
            dut.memory_q[number].value = count
        dut.commands_q.value = wanted[COMMANDS]
        await bench.cycle()
        assert [await value(bench, number) for number in range(len(COUNTERS))] == wanted


@cocotb.test()
async def counters_carry_into_their_upper_bits(dut):
    """A run goes on from values that none reaches in a test."""
    bench = Bench(dut)
    await bench.start()
    numbers = range(len(COUNTERS))
    for rng, bits in zip(seeds(6, dut), (16, 24, 31, 32, 40, 47), strict=True):
        await bench.reset()
        await run(bench, rng, 200)  # every counter is in the memory
        before = [(1 << bits) - 1 - int(rng.integers(3)) for _ in numbers]
        for number, count in enumerate(before):
            dut.memory_q[number].value = count
        dut.commands_q.value = before[COMMANDS]
        await bench.cycle()
        model = await run(bench, rng, 100)
        assert await value(bench, COMMANDS) == before[COMMANDS] + model.counts[COMMANDS] + model.tentative.total()
        expected = [before[number] + model.counts[number] for number in numbers if number != COMMANDS]
        assert [await value(bench, number) for number in numbers if number != COMMANDS] == expected


@cocotb.test()
async def every_cycle_counts_once_in_its_class(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(60, dut):
        model = await run(bench, rng, int(rng.integers(1, 60)))
        assert await value(bench, COMMANDS) == model.counts[COMMANDS] + model.tentative.total()
        for number in range(len(COUNTERS)):
            bench["fold_i"], bench["select_i"] = 1, number
            await bench.cycle()
        bench["fold_i"] = 0
        await bench.cycle(2)
        expected = model.counts + model.tentative
        assert [await value(bench, number) for number in range(len(COUNTERS))] == [
            expected[number] for number in range(len(COUNTERS))
        ]
        bench["clear_i"] = 1
        await bench.cycle()
        bench["clear_i"] = 0
        await bench.cycle(2)
        assert {await value(bench, number) for number in range(len(COUNTERS))} == {0}
