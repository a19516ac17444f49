# SPDX-License-Identifier: Apache-2.0
"""The beat placer against plain loops: the place of every beat, at any rate of beats."""

from collections import deque

import cocotb
import pytest
from helpers.rtl.odd_config import ODD
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.isa import Buffer, Load, encode

MOST_IN_FLIGHT = 2
LOADS = 40


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("machine", ["tiny", ODD], ids=["tiny", "odd"])
def test_the_beat_placer_passes_its_bench(machine):
    simulate("vdla_beat_placer", __file__, machine)


def random_load(rng, machine):
    """A load with data that fits its buffer."""
    buffer = Buffer.ACC if rng.random() < 0.5 else Buffer.INP
    depth = machine.depths[buffer]
    while True:
        z, y, x, top, bottom, left, right = (int(rng.choice([0, 1, 2, 3, 5])) for _ in range(7))
        if rng.random() < 0.2:  # the widest paddings
            top, left, right = (int(rng.choice([0, rng.integers(128, 256)])) for _ in range(3))
        entries = max(z, 1) * (top + max(y, 1) + bottom) * (left + max(x, 1) + right)
        if entries <= depth:
            break
    return Load(
        buffer,
        widen=int(buffer == Buffer.ACC and rng.random() < 0.5),
        sram=int(rng.integers(depth - entries + 1)),
        z_size=max(z, 1),
        y_size=max(y, 1),
        x_size=max(x, 1),
        y_before=top,
        y_after=bottom,
        x_before=left,
        x_after=right,
    )


def entry_beats(machine, load):
    nbytes = machine.out_entry_bytes if load.widen else machine.entry_bytes[load.buffer]
    return nbytes // machine.axi_bytes


def places(machine, load):
    """The entry of each beat, its beat in the entry, and whether it is the last of the load."""
    columns = load.x_before + load.x_size + load.x_after
    rows = load.y_before + load.y_size + load.y_after
    found = []
    for z in range(load.z_size):
        for y in range(load.y_size):
            for x in range(load.x_size):
                entry = load.sram + (z * rows + load.y_before + y) * columns + load.x_before + x
                found += [(entry, beat) for beat in range(entry_beats(machine, load))]
    return [(*place, number == len(found) - 1) for number, place in enumerate(found)]


@cocotb.test()
async def beats_are_placed_as_by_plain_loops(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(25, dut):
        await bench.reset()
        pushes, beats = any_pattern(rng), any_pattern(rng)
        waiting, flight = deque(random_load(rng, machine) for _ in range(LOADS)), deque()
        while waiting or flight:
            push = bool(waiting) and len(flight) < MOST_IN_FLIGHT and next(pushes)
            if push:
                announce(bench, machine, waiting[0])
            bench["push_i"] = push
            bench["beat_valid_i"] = valid = bool(flight) and bench.time > flight[0][2] + 2 and next(beats)
            await bench.cycle()
            assert bench["place_valid_o"] == valid
            if valid:
                check(bench, *flight[0][:2])
                flight[0][1].popleft()
                if not flight[0][1]:
                    flight.popleft()
            if push:
                load = waiting.popleft()
                flight.append((load, deque(places(machine, load)), bench.time - 1))


def announce(bench, machine, load):
    columns = load.x_before + load.x_size + load.x_after
    bench["load_i"] = int.from_bytes(encode(machine, [load])[0].tobytes(), "little")
    bench["last_beat_i"] = entry_beats(machine, load) - 1
    bench["first_i"] = load.sram + load.y_before * columns + load.x_before
    bench["gap_i"] = (load.y_before + load.y_after) * columns + load.x_before + load.x_after


def check(bench, load, due):
    entry, beat, last = due[0]
    seen = [bench[name] for name in ("buffer_o", "widen_o", "index_o", "beat_o", "last_o")]
    assert seen == [load.buffer, load.widen, entry, beat, last], load
