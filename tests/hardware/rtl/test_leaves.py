# SPDX-License-Identifier: Apache-2.0
"""FIFO, queues and RAM against Python models, in several sizes, under all patterns."""

from collections import deque
from itertools import product

import cocotb
import numpy as np
import pytest
from helpers.rtl.rtl_bench import PATTERNS, Bench, pattern, seeds
from helpers.rtl.rtl_runner import simulate

from vdla.hardware.timing import COMMAND_DELAY

DEPTHS = (1, 2, 3, 8, 100)
WORD = 40
LEVEL = 8


@pytest.mark.rtl
def test_fifo_queues_and_ram_pass_their_bench():
    simulate("leaf_cases", __file__)


def bits(values):
    return sum(int(value) << index for index, value in enumerate(values))


def part(value, index, width):
    return value >> index * width & (1 << width) - 1


@cocotb.test()
async def fifo_keeps_the_order(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(2, dut):
        for names in product(PATTERNS, repeat=2):
            await bench.reset()
            offers, takes = ([pattern(name, rng) for _ in DEPTHS] for name in names)
            await exchange(bench, rng, offers, takes)


async def exchange(bench, rng, offers, takes):
    queues = [deque() for _ in DEPTHS]
    for _ in range(120):
        full = [len(queue) == depth for queue, depth in zip(queues, DEPTHS, strict=True)]
        push = [next(offer) and not f for offer, f in zip(offers, full, strict=True)]
        pop = [next(take) and len(queue) > 0 for take, queue in zip(takes, queues, strict=True)]
        data = [int(value) for value in rng.integers(0, 1 << WORD, len(DEPTHS))]
        bench["push_i"], bench["pop_i"] = bits(push), bits(pop)
        bench["data_i"] = sum(value << index * WORD for index, value in enumerate(data))
        await bench.cycle()
        assert bench["full_o"] == bits(full)
        assert bench["empty_o"] == bits(not queue for queue in queues)
        heads, levels = bench["head_o"], bench["level_o"]
        for index, queue in enumerate(queues):
            assert part(levels, index, LEVEL) == len(queue)
            assert not queue or part(heads, index, WORD) == queue[0]
            if pop[index]:
                queue.popleft()
            if push[index]:
                queue.append(data[index])


@cocotb.test()
async def command_queue_keeps_the_order_and_its_delay(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(2, dut):
        for names in product(PATTERNS, repeat=2):
            await bench.reset()
            offers, takes = ([pattern(name, rng) for _ in DEPTHS] for name in names)
            await exchange_commands(bench, rng, offers, takes)


async def exchange_commands(bench, rng, offers, takes):
    queues = [deque() for _ in DEPTHS]  # of (cycle from which it is visible, word)
    for _ in range(120):
        valid = [bool(queue) and queue[0][0] <= bench.time for queue in queues]
        full = [len(queue) == depth for queue, depth in zip(queues, DEPTHS, strict=True)]
        push = [next(offer) and not f for offer, f in zip(offers, full, strict=True)]
        pop = [next(take) and v for take, v in zip(takes, valid, strict=True)]
        data = [int(value) for value in rng.integers(0, 1 << WORD, len(DEPTHS))]
        bench["command_push_i"], bench["command_pop_i"] = bits(push), bits(pop)
        bench["command_i"] = sum(value << index * WORD for index, value in enumerate(data))
        await bench.cycle()
        assert bench["command_full_o"] == bits(full)
        assert bench["command_valid_o"] == bits(valid)
        assert bench["command_empty_o"] == bits(not queue for queue in queues)
        heads, levels = bench["command_o"], bench["command_level_o"]
        for index, queue in enumerate(queues):
            assert part(levels, index, LEVEL) == len(queue)
            assert not valid[index] or part(heads, index, WORD) == queue[0][1]
            if pop[index]:
                queue.popleft()
            if push[index]:
                queue.append((bench.time - 1 + COMMAND_DELAY, data[index]))


@cocotb.test()
async def token_queue_counts_its_tokens(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(2, dut):
        for names in product(PATTERNS, repeat=2):
            await bench.reset()
            pushes, pops = ([pattern(name, rng) for _ in DEPTHS] for name in names)
            level = np.zeros(len(DEPTHS), np.int64)
            for _ in range(120):
                room, available = level < DEPTHS, level > 0
                push = room & np.array([next(p) for p in pushes])
                pop = available & np.array([next(p) for p in pops])
                bench["token_push_i"], bench["token_pop_i"] = bits(push), bits(pop)
                await bench.cycle()
                assert (bench["room_o"], bench["available_o"]) == (bits(room), bits(available))
                assert [part(bench["token_level_o"], i, LEVEL) for i in range(len(DEPTHS))] == level.tolist()
                level += push.astype(np.int64) - pop


@cocotb.test()
async def ram_writes_lanes_and_holds_its_output(dut):
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(1, dut):
        memory, last = {}, None
        for _ in range(4000):
            lanes, where, data, read, at = (int(rng.integers(n)) for n in (8, 24, 1 << 15, 2, 24))
            read = read and at in memory and not (lanes and at == where)
            bench["we_i"], bench["waddr_i"], bench["wdata_i"] = lanes if where in memory else lanes and 7, where, data
            bench["re_i"], bench["raddr_i"] = read, at
            await bench.cycle()
            assert last is None or bench["rdata_o"] == last
            last = memory[at] if read else last
            if lanes:
                mask = sum(31 << 5 * lane for lane in range(3) if lanes >> lane & 1) if where in memory else 0x7FFF
                memory[where] = memory.get(where, 0) & ~mask | data & mask
