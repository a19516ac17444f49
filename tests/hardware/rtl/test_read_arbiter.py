"""The read arbiter against a model, on a memory with delays, reordering and errors."""

from collections import deque

import cocotb
import numpy as np
import pytest
from helpers.rtl.axi_memory import ReadMemory, Storage
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate

REQUESTERS = 3
BYTES = 1 << 16


@pytest.mark.rtl
def test_the_read_arbiter_passes_its_bench():
    simulate("vdla_read_arbiter", __file__, binds=["axi_read_bind"])


class Requester:
    """A requester: its pending bursts, and the beats that arrived for it."""

    def __init__(self, rng, axi_bytes, most_beats):
        self.wish = any_pattern(rng)
        self.bursts = deque(random_burst(rng, axi_bytes, most_beats) for _ in range(int(rng.integers(0, 25))))
        self.expected = [a + i * axi_bytes for a, n in self.bursts for i in range(n)]
        self.beats = []
        self.asks = False


def random_burst(rng, axi_bytes, most_beats):
    beats = int(rng.integers(1, most_beats + 1))
    page = int(rng.integers(0, BYTES // 4096)) * 4096
    return page + int(rng.integers(0, 4096 // axi_bytes - beats + 1)) * axi_bytes, beats


class Arbiter:
    """A model of the arbiter; checks the module against it in every cycle."""

    def __init__(self, bench, requesters, storage, halts, limit):
        self.bench, self.requesters, self.storage, self.halts, self.limit = bench, requesters, storage, halts, limit
        self.locked, self.level, self.halt = None, 0, False

    def drive(self):
        burst = 0
        for number, requester in enumerate(self.requesters):
            requester.asks = bool(requester.bursts) and (requester.asks or next(requester.wish))
            if requester.asks:
                address, beats = requester.bursts[0]
                burst |= (address << 8 | beats - 1) << 48 * number
        self.halt = next(self.halts)
        self.bench["req_valid_i"] = sum(r.asks << n for n, r in enumerate(self.requesters))
        self.bench["req_burst_i"] = burst
        self.bench["halt_i"] = self.halt

    def sample(self):
        bench = self.bench
        asking = [number for number, requester in enumerate(self.requesters) if requester.asks]
        chosen = self.locked
        if chosen is None and asking and not self.halt and self.level < self.limit:
            chosen = asking[0]
        assert bench["outstanding_o"] == (self.locked is not None or self.level > 0)
        assert bench["m_axi_arvalid_o"] == (chosen is not None)
        granted = chosen is not None and bench["m_axi_arready_i"]
        assert bench["req_grant_o"] == (1 << chosen if granted else 0)
        if chosen is not None:
            assert bench["m_axi_arid_o"] == chosen
        self.locked = None if granted else chosen
        if granted:
            self.level += 1
            self.requesters[chosen].bursts.popleft()
            self.requesters[chosen].asks = False
        self._beat()

    def _beat(self):
        bench = self.bench
        if not bench["m_axi_rvalid_i"]:
            assert bench["beat_valid_o"] == 0
            return
        number = bench["m_axi_rid_i"]
        assert bench["beat_valid_o"] == 1 << number
        assert bench["beat_last_o"] == bench["m_axi_rlast_i"]
        assert bench["m_axi_rready_o"] == 1
        self.requesters[number].beats.append((bench["beat_data_o"], bench["beat_error_o"]))
        self.level -= bench["m_axi_rlast_i"]


@cocotb.test()
async def grants_follow_priority_and_beats_their_requester(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(40, dut):
        storage = Storage(BYTES, machine.axi_bytes)
        storage.bytes[:] = rng.integers(0, 256, BYTES)
        storage.errors = {int(rng.integers(16)): 2, int(rng.integers(16)): 3}
        requesters = [Requester(rng, machine.axi_bytes, machine.burst_beats) for _ in range(REQUESTERS)]
        memory = ReadMemory(
            bench,
            storage,
            rng,
            any_pattern(rng),
            any_pattern(rng),
            (1, int(rng.integers(2, 40))),
            bool(rng.integers(2)),
        )
        limit = int(rng.choice([1, 2, 3, 8, 256]))
        halts = rng.random() < 0.5
        model = Arbiter(bench, requesters, storage, halts_now_and_then(rng, halts), limit)
        bench.models = [model, memory]
        bench["read_limit_i"] = limit
        await bench.reset()
        await done(bench, model, memory)
        for requester in requesters:
            assert requester.beats == [
                (storage.beat(address), storage.response(address) >> 1) for address in requester.expected
            ]


async def done(bench, model, memory):
    for _ in range(20_000):
        await bench.cycle()
        if not memory.bursts and not any(r.bursts for r in model.requesters):
            return
    raise TimeoutError("the arbiter must grant all bursts")


def halts_now_and_then(rng: np.random.Generator, halts: bool):
    while True:
        yield from [False] * int(rng.integers(1, 50))
        yield from [halts] * int(rng.integers(1, 20))
