# SPDX-License-Identifier: Apache-2.0
"""The pad walker against a grid: every padding entry once and in order, at any rate of steps."""

import cocotb
import numpy as np
import pytest
from helpers.rtl.odd_config import ODD
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.isa import Buffer, Load, encode


@pytest.mark.rtl
@pytest.mark.parametrize("machine", ["tiny", ODD], ids=["tiny", "odd"])
def test_the_pad_walker_passes_its_bench(machine):
    simulate("vdla_pad_walker", __file__, machine)


def random_load(rng, depth):
    """A load with padding that fits the accumulator, sometimes without data."""
    while True:
        z, y, x = (int(rng.integers(1, 5)) for _ in range(3))
        if rng.random() < 0.15:
            y, x = (0, int(rng.integers(4))) if rng.random() < 0.5 else (int(rng.integers(4)), 0)
        pads = [int(rng.choice([0, 0, 1, 2, rng.integers(12)])) for _ in range(4)]
        if rng.random() < 0.1:
            pads[int(rng.integers(4))] = int(rng.integers(12, 256))
        places = padding(z, y, x, pads)
        entries = z * (y + pads[0] + pads[1]) * (x + pads[2] + pads[3])
        if len(places) and entries <= depth:
            names = ("y_before", "y_after", "x_before", "x_after")
            sram = int(rng.integers(depth - entries + 1))
            return Load(Buffer.ACC, sram=sram, z_size=z, y_size=y, x_size=x, **dict(zip(names, pads, strict=True)))


def padding(z, y, x, pads):
    """The padding entries of a load that begins at entry 0."""
    top, bottom, left, right = pads
    grid = np.ones((z, y + top + bottom, x + left + right), bool)
    grid[:, top : top + y, left : left + x] = False
    return np.flatnonzero(grid)


@cocotb.test()
async def every_padding_entry_is_filled_once(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(60, dut):
        paces = any_pattern(rng)
        for _ in range(10):
            await walk(bench, machine, random_load(rng, machine.acc_depth), paces)


async def walk(bench, machine, load, paces):
    pins = {
        "load_i": int.from_bytes(encode(machine, [load])[0].tobytes(), "little"),
        "has_data_i": load.y_size > 0 and load.x_size > 0,
        "plane_i": load.y_size * load.x_size,
        "rows_i": load.y_before + load.y_size + load.y_after,
        "columns_i": load.x_before + load.x_size + load.x_after,
    }
    bench["accept_i"], bench["start_i"], bench["step_i"] = 1, 0, 0
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
    pads = (load.y_before, load.y_after, load.x_before, load.x_after)
    expected = (load.sram + padding(load.z_size, load.y_size, load.x_size, pads)).tolist()
    for number, index in enumerate(expected):
        bench["step_i"] = 0
        while not next(paces):
            await bench.cycle()
        bench["step_i"] = 1
        await bench.cycle()
        assert bench["index_o"] == index, (load, number)
        assert bench["last_o"] == (number == len(expected) - 1), (load, number)
