# SPDX-License-Identifier: Apache-2.0
"""Cycles that no program is below: by hand, and below those of programs of random layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.seeds import seeds

from vdla.compiler.operators.least_cycles import LeastCycles, least_cycles
from vdla.compiler.operators.workloads import SELF_TEST, Workload
from vdla.compiler.templates import conv2d, conv2d_transpose, depthwise_conv2d
from vdla.hardware import timing as contract
from vdla.hardware.config import Config, Dram
from vdla.simulator.timing import time_program

TINY = Config.preset("tiny")
TEMPLATES = {"conv2d": conv2d, "conv2d_transpose": conv2d_transpose, "depthwise_conv2d": depthwise_conv2d}


def layer(operator: str = "conv2d", **fields: int) -> Workload:
    return replace(SELF_TEST, operator=operator, **fields)


def cycles(layer: Workload, config: Config) -> int:
    """Of the template's program."""
    shape = {name: getattr(layer, name) for name in ("batch", "height", "width", "kernel", "strides", "pads")}
    depthwise = layer.operator == "depthwise_conv2d"
    channels = {"channels": layer.in_channels} if depthwise else {
        "in_channels": layer.in_channels, "out_channels": layer.out_channels
    }  # fmt: skip
    return time_program(TEMPLATES[layer.operator](config, **shape, **channels).program).total_cycles


def test_steps_reads_and_writes_by_hand() -> None:
    """3 x 3 taps on 3 x 3 pixels with padding: 4, 6 and 9 taps at corners, edges and the centre."""
    image = layer(height=3, width=3, in_channels=6, out_channels=8, kernel=3, strides=1, pads=1, batch=1)
    steps = [-(-6 * taps // 4) for taps in (4, 6, 4, 6, 9, 6, 4, 6, 4)]  # of four products each
    assert least_cycles(image, TINY) == LeastCycles.of(
        TINY,
        steps=sum(steps) * 2,
        read_bytes=9 * 6 + 9 * 6 * 8 + 8 * 8,
        written_bytes=9 * 8,
        operands=2,
    )


def test_windows_that_lie_apart_leave_pixels_out() -> None:
    image = layer(height=5, width=5, in_channels=4, out_channels=4, kernel=1, strides=2, pads=0, batch=1)
    assert least_cycles(image, TINY) == LeastCycles.of(TINY, 9, 9 * 4 + 4 * 4 + 4 * 8, 9 * 4, 2)


def test_the_chain_of_a_run_by_the_contract() -> None:
    """One step: an instruction is fetched, three entries loaded, a result computed and stored."""
    latency = contract.PORT_DELAY + TINY.dram.read_latency
    load = latency + 7 + contract.DISPATCH_DELAY + contract.COMMAND_DELAY + contract.LOAD_SETUP  # 8 beats a word
    step = load + latency + (2 + 1 + 4) - 1 + contract.LOAD_TAIL + 1  # beats of a micro-op, inputs, weights
    store = step + 1 + contract.ISSUE_DELAY + contract.compute_depth(TINY) + 1
    end = store + contract.STORE_SETUP + TINY.dram.write_latency + contract.STORE_TAIL + 1
    assert LeastCycles.of(TINY, 1, 0, 0, 2) == LeastCycles(compute=end, reads=0, writes=0)
    assert LeastCycles.of(TINY, 101, 0, 0, 2).compute == end + 100
    assert LeastCycles.of(TINY, 1, 0, 40, 2).writes == end + 9


def test_few_outstanding_bursts_on_a_late_memory_bound_the_reads() -> None:
    late = replace(TINY, dram=Dram(read_latency=1000, outstanding_reads=2))
    bursts = 4096 // (TINY.axi_bytes * TINY.burst_beats)
    assert LeastCycles.of(late, 1, 4096, 0).reads > bursts / 2 * 1000


def test_the_greatest_says_what_sets_it() -> None:
    least = LeastCycles(compute=100, reads=200, writes=50)
    assert (least.cycles, least.limited_by, least.gap(210)) == (200, "reads", pytest.approx(0.05))


def random_layer(rng: np.random.Generator) -> tuple[Workload, Config]:
    operator = str(rng.choice(list(TEMPLATES)))
    kernel, channels = int(rng.integers(1, 5)), int(rng.integers(1, 20))
    shape = {"height": int(rng.integers(kernel, 12)), "width": int(rng.integers(kernel, 12)), "batch": 1}
    outs = channels if operator == "depthwise_conv2d" else int(rng.integers(1, 20))
    drawn = layer(
        operator, **shape, in_channels=channels, out_channels=outs, kernel=kernel,
        strides=int(rng.integers(1, kernel + 2)) if operator == "conv2d" else 1, pads=int(rng.integers(0, kernel)),
    )  # fmt: skip
    config = Config.preset(str(rng.choice(["tiny", "pynq_z1", "batch4", "pynq_z1_512x2", "kv260_lm"])))
    latency = int(rng.choice([1, 20, 400]))
    return drawn, replace(config, dram=replace(config.dram, read_latency=latency))


@pytest.mark.parametrize("seed", seeds(range(60), 20))
def test_programs_of_random_layers_are_not_below(seed: int) -> None:
    drawn, config = random_layer(np.random.default_rng(seed))
    if drawn.out_height < 1 or drawn.out_width < 1:
        pytest.skip("padding leaves no result")
    assert least_cycles(drawn, config).cycles <= cycles(drawn, config), (seed, drawn, config.name)
