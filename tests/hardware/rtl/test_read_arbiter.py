# SPDX-License-Identifier: Apache-2.0
"""The read arbiter against a model, on a memory with delays, reordering and errors."""

from collections import deque
from itertools import chain, repeat

import cocotb
import numpy as np
import pytest
from helpers.rtl.axi_memory import ReadMemory, Storage
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.timing import MAX_OUTSTANDING

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
        self.bench, self.requesters, self.storage, self.halts = bench, requesters, storage, halts
        self.limit = min(limit, MAX_OUTSTANDING)
        self.presented = deque()  # granted and not accepted by the memory: (requester, address, beats)
        self.level, self.most, self.halt = 0, 0, False
        self.may_begin = False  # from the second cycle after a reset
        self.beat = None  # at the port in the cycle before

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
        granted = bool(asking) and not self.halt and self.may_begin and len(self.presented) < 2
        assert bench["outstanding_o"] == (self.level > 0)
        assert bench["req_grant_o"] == (1 << asking[0] if granted else 0)
        self._address()
        self._beat()
        if granted:
            requester = self.requesters[asking[0]]
            self.presented.append((asking[0], *requester.bursts.popleft()))
            requester.asks = False
        self.level += granted
        self.most = max(self.most, self.level)
        self.may_begin = self.level < self.limit

    def _address(self):
        bench = self.bench
        assert bench["m_axi_arvalid_o"] == bool(self.presented)
        if self.presented:
            number, address, beats = self.presented[0]
            pins = [bench[f"m_axi_{name}_o"] for name in ("arid", "araddr", "arlen")]
            assert pins == [number, address, beats - 1]
            if bench["m_axi_arready_i"]:
                self.presented.popleft()

    def _beat(self):
        """A beat reaches its requester in the cycle after it was at the port."""
        bench, beat = self.bench, self.beat
        assert bench["m_axi_rready_o"] == 1
        if beat is None:
            assert bench["beat_valid_o"] == 0
        else:
            number, data, response, last = beat
            assert bench["beat_valid_o"] == 1 << number
            seen = [bench[name] for name in ("beat_data_o", "beat_error_o", "beat_last_o")]
            assert seen == [data, response >> 1, last]
            self.requesters[number].beats.append((data, response >> 1))
            self.level -= last
        names = ("rid", "rdata", "rresp", "rlast")
        self.beat = tuple(bench[f"m_axi_{name}_i"] for name in names) if bench["m_axi_rvalid_i"] else None


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


@cocotb.test()
async def the_limit_is_at_most_that_of_the_queues(dut):
    """A limit beyond the documented ones leaves MAX_OUTSTANDING bursts outstanding."""
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(1, dut):
        storage = Storage(BYTES, machine.axi_bytes)
        requesters = [Requester(rng, machine.axi_bytes, 2) for _ in range(REQUESTERS)]
        requesters[-1].bursts = deque((8 * number, 1) for number in range(MAX_OUTSTANDING + 40))
        always = repeat(True)
        memory = ReadMemory(bench, storage, rng, always, chain(repeat(False, 1000), always))
        model = Arbiter(bench, requesters, storage, repeat(False), 511)
        bench.models = [model, memory]
        bench["read_limit_i"] = 511
        await bench.reset()
        await done(bench, model, memory)
        assert model.most == MAX_OUTSTANDING


async def done(bench, model, memory):
    for _ in range(20_000):
        await bench.cycle()
        if not model.level and not model.beat and not any(r.bursts for r in model.requesters):
            return
    raise TimeoutError("the arbiter must grant all bursts")


def halts_now_and_then(rng: np.random.Generator, halts: bool):
    while True:
        yield from [False] * int(rng.integers(1, 50))
        yield from [halts] * int(rng.integers(1, 20))
