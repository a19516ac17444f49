# SPDX-License-Identifier: Apache-2.0
"""The control port's AXI4-Lite slave in front of a register file that takes some cycles."""

from collections import deque

import cocotb
import pytest
from helpers.rtl.axil_master import OKAY, SLVERR
from helpers.rtl.rtl_bench import Bench, any_pattern, pattern, seeds
from helpers.rtl.rtl_runner import simulate

REGISTER_DELAY = 2
ACCESSES = 60


@pytest.mark.rtl
def test_the_slave_passes_its_bench():
    simulate("vdla_axil", __file__, binds=["axil_bind"])


def value_of(address):
    return (address >> 2) * 0x9E3779B1 & 0xFFFFFFFF


def refused(address):
    return bool(address >> 2 & 1)


class Registers:
    """A register file whose values depend on the address, right only if the slave keeps it."""

    def __init__(self, bench, rng):
        self.bench, self.rng = bench, rng
        self.ready = pattern(str(rng.choice(["always", "mostly", "bursts"])), rng)
        self.seen = deque([None] * REGISTER_DELAY)  # addresses of the cycles before, None while not ready
        self.writes = []

    def drive(self):
        bench = self.bench
        self.is_ready = next(self.ready)
        bench["read_ready_i"] = self.is_ready
        stable = self.seen[0] is not None and all(address == self.seen[0] for address in self.seen)
        bench["read_data_i"] = value_of(self.seen[0]) if stable else int(self.rng.integers(1 << 32))
        bench["read_error_i"] = refused(self.seen[0]) if stable else int(self.rng.integers(2))

    def settle(self):
        bench = self.bench
        bench["write_error_i"] = refused(bench["write_addr_o"]) if bench["write_o"] else int(self.rng.integers(2))

    def sample(self):
        bench = self.bench
        self.seen.append(bench["read_addr_o"] if self.is_ready else None)
        self.seen.popleft()
        if bench["write_o"]:
            self.writes.append((bench["write_addr_o"], bench["write_data_o"], bench["write_strb_o"]))


class Channel:
    """A channel of requests: offers each by the pattern, also while others are in flight."""

    def __init__(self, bench, valid, ready, pins, requests, offers):
        self.bench, self.valid, self.ready, self.pins, self.offers = bench, valid, ready, pins, offers
        self.requests = deque(requests)
        self.offered = False

    def drive(self):
        self.offered = bool(self.requests) and (self.offered or next(self.offers))
        self.bench[self.valid] = self.offered
        for pin, value in zip(self.pins, self.requests[0] if self.offered else [0] * len(self.pins), strict=True):
            self.bench[pin] = value

    def sample(self):
        if self.offered and self.bench[self.ready]:
            self.requests.popleft()
            self.offered = False


class Responses:
    """A channel of responses, accepted by the pattern."""

    def __init__(self, bench, valid, ready, pins, accepts):
        self.bench, self.valid, self.ready, self.pins, self.accepts = bench, valid, ready, pins, accepts
        self.received = []

    def drive(self):
        self.accepting = next(self.accepts)
        self.bench[self.ready] = self.accepting

    def sample(self):
        if self.accepting and self.bench[self.valid]:
            self.received.append(tuple(self.bench[pin] for pin in self.pins))


@cocotb.test()
async def accesses_in_flight_keep_their_addresses(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(12, dut):
        reads, writes = ([4 * int(word) for word in rng.integers(0, 1024, ACCESSES)] for _ in range(2))
        data = [(int(rng.integers(1 << 32)), int(rng.integers(16))) for _ in writes]
        registers = Registers(bench, rng)
        port = "s_axil_"
        written = Responses(bench, f"{port}bvalid_o", f"{port}bready_i", [f"{port}bresp_o"], any_pattern(rng))
        pins = [f"{port}rdata_o", f"{port}rresp_o"]
        read = Responses(bench, f"{port}rvalid_o", f"{port}rready_i", pins, any_pattern(rng))
        low = int(rng.integers(4))  # ignored
        channels = [
            ("ar", [f"{port}araddr_i"], [(address | low,) for address in reads]),
            ("aw", [f"{port}awaddr_i"], [(address | low,) for address in writes]),
            ("w", [f"{port}wdata_i", f"{port}wstrb_i"], data),
        ]
        models = [
            Channel(bench, f"{port}{name}valid_i", f"{port}{name}ready_o", pins, requests, any_pattern(rng))
            for name, pins, requests in channels
        ]
        await bench.reset()
        bench.models = [registers, *models, written, read]
        for _ in range(100 * ACCESSES):
            await bench.cycle()
            if len(written.received) == len(read.received) == ACCESSES:
                break
        await bench.cycle(10)
        assert registers.writes == [(address, *values) for address, values in zip(writes, data, strict=True)]
        assert written.received == [(SLVERR if refused(address) else OKAY,) for address in writes]
        assert read.received == [(value_of(address), SLVERR if refused(address) else OKAY) for address in reads]
        bench.models = []
