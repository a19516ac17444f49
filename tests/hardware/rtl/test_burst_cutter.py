# SPDX-License-Identifier: Apache-2.0
"""The burst cutter against section 2 of the timing contract, at any rate of grants."""

from itertools import repeat

import cocotb
import pytest
from helpers.rtl.odd_config import ODD
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate

MAX_SHIFT = 4
PAGE_BYTES = 4096
STRIDE_BITS = 24


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize(
    "machine", ["tiny", ODD, pytest.param("pynq_z1", marks=pytest.mark.long)], ids=["tiny", "odd", "pynq_z1"]
)
def test_the_burst_cutter_passes_its_bench(machine):
    simulate("vdla_burst_cutter", __file__, machine)


def random_transfer(rng, machine):
    """dram, shift, sizes z y x and strides z y, in beats; half of the rows are contiguous."""
    shift, most = int(rng.integers(MAX_SHIFT + 1)), max(machine.depths)
    z, y = (int(rng.choice([1, 1, 2, 3, int(rng.integers(1, 9))])) for _ in range(2))
    x = int(rng.integers(1, max(2, min(200, most // (z * y)) if rng.random() < 0.3 else 6)))
    row = x << shift
    y_stride = row if rng.random() < 0.5 else int(rng.integers(int(rng.choice([row + 40, 1 << STRIDE_BITS]))))
    z_stride = y * row if rng.random() < 0.5 else int(rng.integers(int(rng.choice([1 << 12, 1 << STRIDE_BITS]))))
    page = PAGE_BYTES // machine.axi_bytes
    before_page_end = int(rng.integers(1, 60)) * page - int(rng.integers(min(page, 40)))
    dram = before_page_end if rng.random() < 0.7 else int(rng.integers(1 << 31))  # the strides leave room
    return dram, shift, (z, y, x), (z_stride, y_stride)


def runs(dram, shift, sizes, strides):
    """Address and beats of each run: contiguous rows are joined, then contiguous planes."""
    (z, y, x), (z_stride, y_stride) = sizes, strides
    row = x << shift
    if y > 1 and y_stride != row:
        return [(dram + p * z_stride + r * y_stride, row) for p in range(z) for r in range(y)]
    if z > 1 and z_stride != y * row:
        return [(dram + p * z_stride, y * row) for p in range(z)]
    return [(dram, z * y * row)]


def bursts(machine, transfer):
    """Byte address and beats of each burst: the longest within burst_beats, run and page."""
    page = PAGE_BYTES // machine.axi_bytes
    for address, beats in runs(*transfer):
        while beats:
            length = min(machine.burst_beats, beats, page - address % page)
            yield address * machine.axi_bytes, length
            address, beats = address + length, beats - length


@cocotb.test()
async def bursts_follow_the_contract(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    count = 0
    for rng in seeds(60, dut):
        grants = any_pattern(rng)
        for _ in range(12):
            count += await compare(bench, machine, random_transfer(rng, machine), grants)
    assert count > 700


@cocotb.test()
async def the_greatest_planes_are_merged_or_not(dut):
    """Two planes of half of the deepest buffer, of the widest entries, beside a page's start."""
    machine = config()
    bench = Bench(dut)
    await bench.start()
    plane = max(machine.depths) // 2
    for beside in (0, 1):
        transfer = 3, MAX_SHIFT, (2, 1, plane), ((plane << MAX_SHIFT) + beside, 0)
        await compare(bench, machine, transfer, repeat(True))


async def compare(bench, machine, transfer, grants):
    """Compares the bursts of a transfer; returns how many there are."""
    await start(bench, *transfer)
    expected = list(bursts(machine, transfer))
    for number, (address, beats) in enumerate(expected):
        await wait(bench, grants)
        assert bench["burst_o"] == address << 8 | beats - 1, (transfer, number)
        assert bench["last_o"] == (number == len(expected) - 1), (transfer, number)
    return len(expected)


async def start(bench, dram, shift, sizes, strides):
    (z, y, x), (z_stride, y_stride) = sizes, strides
    pins = {
        "dram_i": dram, "shift_i": shift, "z_size_i": z, "y_size_i": y, "x_size_i": x, "plane_i": y * x,
        "z_stride_i": z_stride, "y_stride_i": y_stride,
    }  # fmt: skip
    bench["accept_i"], bench["start_i"], bench["grant_i"] = 1, 0, 0
    for name in pins:  # what comes before the start does not matter
        bench[name] = 1
    await bench.cycle()
    for name, value in pins.items():
        bench[name] = value
    bench["start_i"] = 1
    await bench.cycle()
    bench["accept_i"], bench["start_i"] = 0, 0
    for name in pins:  # sampled at the start only
        bench[name] = 0
    await bench.cycle()


async def wait(bench, grants):
    """Runs until the offered burst is granted; checks that it is stable until then."""
    offered = None
    while True:
        bench["grant_i"] = granted = next(grants)
        await bench.cycle()
        assert offered in (None, bench["burst_o"])
        offered = bench["burst_o"]
        if granted:
            return
