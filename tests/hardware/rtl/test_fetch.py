# SPDX-License-Identifier: Apache-2.0
"""Fetch against section 3 of the timing contract, cycle by cycle."""

from collections import deque
from itertools import cycle

import cocotb
import numpy as np
import pytest
from helpers.naive_timing import cut_run
from helpers.random_instructions import random_instructions
from helpers.rtl.axi_memory import Storage
from helpers.rtl.burst_memory import BurstMemory
from helpers.rtl.rtl_bench import Bench, any_pattern, config, pattern, seeds
from helpers.rtl.rtl_runner import simulate
from helpers.rtl.unit_pins import command_widths, derived_fields, split

from vdla.hardware.isa import COL, COUNTERS, IsaError, check, columns, encode, instruction_bytes
from vdla.hardware.timing import DISPATCH_DELAY, PORT_DELAY, fetch_buffer_beats

UNITS = 3
START_DELAY = 3


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny", pytest.param("pynq_z1", marks=pytest.mark.long)])
def test_fetch_passes_its_bench(name):
    simulate("vdla_fetch", __file__, name, registers=("rest_q", "dispatched_q"))


class Fetch:
    """A model of fetch; checks the module against it in every cycle."""

    def __init__(self, bench, machine, words, base, memory, fulls, latency):
        self.bench, self.machine, self.words, self.memory = bench, machine, words, memory
        self.fulls, self.latency = fulls, latency
        self.table = columns(machine, words)
        self.valid = [is_valid(machine, words[k : k + 1]) for k in range(len(words))]
        self.word = instruction_bytes(machine) // machine.axi_bytes
        self.room = fetch_buffer_beats(machine)
        first = base // machine.axi_bytes
        self.cuts = deque(beats for _, beats in cut_run(machine, first, len(words) * self.word))
        self.address = base
        self.arrivals = []
        self.one_beat_dispatches = 0
        self.granted = self.received = self.dispatched = 0
        self.outstanding = deque()
        self.full = 0

    def drive(self):
        self.full = sum(next(full) << unit for unit, full in enumerate(self.fulls))
        self.bench["queue_full_i"] = self.full

    def sample(self):
        bench = self.bench
        beats = self.request()
        k, unit = self.dispatched, -1
        arrived = k < len(self.arrivals) and bench.time >= self.arrivals[k] + DISPATCH_DELAY
        valid = arrived and self.valid[k]
        assert bench["invalid_o"] == (arrived and not valid)
        if valid and not self.full >> self.table[k, COL["unit"]] & 1:
            unit = self.table[k, COL["unit"]]
            self.check_command(k)
        assert bench["dispatch_o"] == (1 << unit if unit >= 0 else 0)
        assert (bench["dispatched_o"], bench["all_dispatched_o"]) == (k, k == len(self.words))
        if beats and bench["burst_grant_i"]:
            self.outstanding.append([bench.time, beats, False])
            self.granted += beats
            self.address += beats * self.machine.axi_bytes
            self.cuts.popleft()
            self.one_beat_dispatches += beats == 1 and unit >= 0
        assert COUNTERS[bench["class_o"]] == self.expected_class(unit >= 0, arrived)
        self.beat()
        self.dispatched += unit >= 0

    def request(self):
        """The beats of the requested burst, 0 if none."""
        beats = self.cuts[0] if self.cuts else 0
        if self.granted + beats - self.dispatched * self.word > self.room:
            beats = 0
        assert self.bench["burst_valid_o"] == (beats > 0)
        assert not beats or self.bench["burst_o"] == (self.address << 8 | beats - 1)
        return beats

    def check_command(self, k):
        row = {name: self.table[k, index] for name, index in COL.items()}
        command = split(self.bench["command_o"], command_widths(self.machine))
        assert command["word"] == int.from_bytes(self.words[k].tobytes(), "little")
        expected = derived_fields(row)
        assert {name: command[name] for name in expected} == expected

    def expected_class(self, dispatches, arrived):
        if self.outstanding:
            granted, _, begun = self.outstanding[0]
            if self.memory.beat:
                return "busy"
            due = begun or self.bench.time >= granted + PORT_DELAY + self.latency
            return "memory_bandwidth" if due else "memory_latency"
        if dispatches:
            return "busy"
        if self.dispatched == len(self.words):
            return "idle"
        return "commands" if arrived else "memory_bandwidth"

    def beat(self):
        if not self.memory.beat:
            return
        self.received += 1
        if self.received % self.word == 0:
            self.arrivals.append(self.bench.time)
        self.outstanding[0][1:] = self.outstanding[0][1] - 1, True
        if self.outstanding[0][1] == 0:
            self.outstanding.popleft()


def is_valid(machine, words):
    try:
        check(machine, words)
    except IsaError:
        return False
    return True


def words_of(machine, rng, count, invalid_at):
    words = encode(machine, random_instructions(machine, rng, count))
    while invalid_at is not None and is_valid(machine, words[invalid_at : invalid_at + 1]):
        words[invalid_at] ^= (rng.random(words.shape[1]) < 0.1).astype(np.uint8) << np.uint8(rng.integers(8))
    return words


@cocotb.test()
async def requests_and_dispatches_are_cycle_exact(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(16, dut):
        count = int(rng.choice([0, 1, 2, 5, 60, 200]))  # the longest crosses several pages
        invalid_at = int(rng.integers(count)) if count and rng.random() < 0.3 else None
        fulls = [pattern(str(rng.choice(["seldom", "half", "bursts"])), rng) for _ in range(UNITS)]
        latency = (1, int(rng.integers(2, 60)))
        await run(bench, machine, rng, count, invalid_at, 0x1F00, fulls, (any_pattern(rng), any_pattern(rng), latency))


@cocotb.test()
async def a_burst_of_one_beat_is_counted_beside_a_dispatch(dut):
    """The page ends a beat behind bursts that fill the buffer; words wait and then pass at once."""
    machine = config()
    bench = Bench(dut)
    await bench.start()
    seen = 0
    for rng in seeds(3, dut):
        beats = 2 * machine.burst_beats * int(rng.integers(2, 5)) + 1
        base = 0x2000 - beats * machine.axi_bytes
        fulls = [cycle([True] * 90 + [False] * 6) for _ in range(UNITS)]
        always = pattern("always", rng)
        seen += await run(bench, machine, rng, 60, None, base, fulls, (always, always, (1, 2)))
    assert seen, "a burst of one beat must be granted in the cycle of a dispatch"


@cocotb.test()
async def a_stream_has_all_bits_of_its_length(dut):
    """Of a long stream the first and the last words are fetched: the registers that count them are
    moved on in between. With fewer bits the length is that of the first words.
    """
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng, bit in zip(seeds(3, dut), (16, 24, 31), strict=True):
        first, last = 20, 40
        count, skipped = (1 << bit) + first, (1 << bit) - last
        words = words_of(machine, rng, first + last, None)
        storage = Storage(1 << 16, machine.axi_bytes)
        storage.bytes[0x1F00 : 0x1F00 + words.nbytes] = words.ravel()
        always = pattern("always", rng)
        bench["queue_full_i"] = 0
        await begin(bench, 0x1F00, count, 1)
        bench.models = [BurstMemory(bench, storage, rng, always, always, (1, 2))]
        await bench.until("dispatched_o", first)
        assert not bench["all_dispatched_o"]
        dut.rest_q.value = int(dut.rest_q.value) - skipped * (words.shape[1] // machine.axi_bytes)
        dut.dispatched_q.value = int(dut.dispatched_q.value) + skipped
        await bench.until("all_dispatched_o")
        await bench.cycle(100)
        assert (bench["burst_valid_o"], bench["dispatched_o"]) == (0, count)
        bench.models = []


async def run(bench, machine, rng, count, invalid_at, base, fulls, habits):
    """Fetches a stream; returns the bursts of one beat that were granted beside a dispatch."""
    words = words_of(machine, rng, count, invalid_at)
    storage = Storage(1 << 16, machine.axi_bytes)
    storage.bytes[base : base + words.nbytes] = words.ravel()
    memory = BurstMemory(bench, storage, rng, *habits)
    latency = int(rng.choice([1, 10, 80]))
    model = Fetch(bench, machine, words, base, memory, fulls, latency)
    await begin(bench, base, count, latency)
    bench.models = [memory, model]
    started = bench.time
    end = count if invalid_at is None else invalid_at
    while model.dispatched < end:
        await bench.cycle()
        assert bench.time < started + 200 * count + 1000
    await bench.cycle(100)
    assert model.dispatched == end
    bench.models = []
    return model.one_beat_dispatches


async def begin(bench, base, count, latency):
    bench["base_i"], bench["count_i"], bench["read_latency_i"] = base, count, latency
    bench["burst_grant_i"] = bench["beat_valid_i"] = 0
    await bench.reset()
    bench["start_i"] = 1
    await bench.cycle()
    bench["start_i"] = 0
    await bench.cycle(START_DELAY - 1)
