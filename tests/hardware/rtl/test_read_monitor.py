# SPDX-License-Identifier: Apache-2.0
"""The read monitor against the definition of covered cycles, for fast and slow memories."""

from collections import deque

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench, any_pattern, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.isa import COUNTERS
from vdla.hardware.timing import MAX_OUTSTANDING, PORT_DELAY

LONGEST = 65536  # cycles
BUSY, LATENCY, BANDWIDTH = (COUNTERS.index(name) for name in ("busy", "memory_latency", "memory_bandwidth"))


@pytest.mark.rtl
def test_the_read_monitor_passes_its_bench():
    simulate("vdla_read_monitor", __file__)


@cocotb.test()
async def classes_follow_the_oldest_burst(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(60, dut):
        latency = int(rng.choice([0, 1, 2, 3, 10, 80, 65536]))
        bench["latency_i"] = latency
        await bench.reset()
        grants, beats = any_pattern(rng), any_pattern(rng)
        early = PORT_DELAY + 1 + int(rng.choice([0, latency, 2 * latency])) % 300
        bursts = deque()  # (granted, beats left, begun)
        for t in range(500):
            grant = next(grants) and len(bursts) < MAX_OUTSTANDING
            beat = bool(bursts) and t - bursts[0][0] >= early and next(beats)
            last = beat and bursts[0][1] == 1
            bench["grant_i"], bench["beat_i"], bench["last_i"] = grant, beat, last
            await bench.cycle()
            if grant:
                bursts.append([t, int(rng.integers(1, 6)), False])
            assert bench["covered_o"] == bool(bursts), t
            if bursts:
                assert bench["class_o"] == expected_class(bursts[0], t, latency, beat), (t, bursts[0])
            if beat:
                bursts[0][1:] = bursts[0][1] - 1, True
            if last:
                bursts.popleft()


def expected_class(burst, t, latency, beat):
    granted, _, begun = burst
    if beat:
        return BUSY
    return LATENCY if not begun and t < granted + PORT_DELAY + latency else BANDWIDTH


@cocotb.test()
async def the_longest_latencies_count_to_their_end(dut):
    """Bursts become due after 65,536 and 131,071 cycles, the documented and the widest value."""
    bench = Bench(dut)
    await bench.start()
    for latency in (LONGEST, (1 << 17) - 1):
        bench["latency_i"] = latency
        await bench.reset()
        bench["grant_i"] = 1
        await bench.cycle(3)
        bench["grant_i"] = 0
        await bench.cycle(PORT_DELAY + latency - 3)
        assert (bench["covered_o"], bench["class_o"]) == (1, LATENCY)
        for beat in (0, 0, 1, 1, 1):  # the first is due, then late, then all arrive
            bench["beat_i"] = bench["last_i"] = beat
            await bench.cycle()
            assert (bench["covered_o"], bench["class_o"]) == (1, BUSY if beat else BANDWIDTH)
        bench["beat_i"] = bench["last_i"] = 0
        await bench.cycle()
        assert bench["covered_o"] == 0
