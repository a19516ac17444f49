# SPDX-License-Identifier: Apache-2.0
"""The measured DRAM model: known memories are recovered, and simulated cycles with it are exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from vdla.compiler.operators.workloads import Workload
from vdla.hardware.config import Config, Dram
from vdla.hardware.dram_model import DramModel
from vdla.hardware.program import Program
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import run
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.layers import layer_operator, pack, random_data
from vdla.runtime.diagnosis.memory_measurement import DramFit, MemoryMeasurement, measure
from vdla.runtime.diagnosis.probes import probes
from vdla.simulator.simulate import simulate
from vdla.simulator.stats import RunStats
from vdla.simulator.timing import time_program

# Memories on which every figure shows: no more outstanding bursts than help, gaps not hidden.
MEMORIES = [
    (
        "tiny",
        Dram(read_latency=10, write_latency=5, outstanding_reads=2, outstanding_writes=2, beat_cycles=1, burst_gap=0),
    ),
    (
        "tiny",
        Dram(read_latency=200, write_latency=90, outstanding_reads=8, outstanding_writes=4, beat_cycles=2, burst_gap=3),
    ),
    (
        "pynq_z1",
        Dram(read_latency=80, write_latency=40, outstanding_reads=8, outstanding_writes=8, beat_cycles=1, burst_gap=0),
    ),
    (
        "pynq_z1",
        Dram(read_latency=33, write_latency=100, outstanding_reads=2, outstanding_writes=8, beat_cycles=3, burst_gap=1),
    ),
    (
        "pynq_z1",
        Dram(
            read_latency=500, write_latency=300, outstanding_reads=16, outstanding_writes=2, beat_cycles=7, burst_gap=9
        ),
    ),
    (
        "int4",
        Dram(
            read_latency=30, write_latency=300, outstanding_reads=4, outstanding_writes=32, beat_cycles=1, burst_gap=2
        ),
    ),
    (
        "batch4",
        Dram(read_latency=120, write_latency=70, outstanding_reads=6, outstanding_writes=3, beat_cycles=2, burst_gap=0),
    ),
    (
        "zcu104",
        Dram(
            read_latency=200, write_latency=100, outstanding_reads=3, outstanding_writes=4, beat_cycles=1, burst_gap=0
        ),
    ),
    (
        "pynq_z1_512x2",
        Dram(
            read_latency=300, write_latency=100, outstanding_reads=8, outstanding_writes=4, beat_cycles=1, burst_gap=5
        ),
    ),
]
# Memories with figures that no cycle shows: slots beyond those that help, hidden gaps.
HIDDEN = [
    (
        "pynq_z1",
        Dram(
            read_latency=20, write_latency=300, outstanding_reads=16, outstanding_writes=32, beat_cycles=3, burst_gap=30
        ),
    ),
    (
        "osdi18",
        Dram(read_latency=3, write_latency=100, outstanding_reads=64, outstanding_writes=2, beat_cycles=2, burst_gap=9),
    ),
    (
        "ultra96",
        Dram(read_latency=100, write_latency=80, outstanding_reads=1, outstanding_writes=1, beat_cycles=1, burst_gap=7),
    ),
]
LAYER = Workload(
    name="small",
    operator="conv2d",
    batch=1,
    height=14,
    width=14,
    in_channels=32,
    out_channels=32,
    kernel=3,
    strides=1,
    pads=1,
    note="",
)


def with_memory(preset: str, dram: Dram) -> Config:
    return replace(Config.preset(preset), dram=dram)


def measured(config: Config) -> MemoryMeasurement:
    with SimDevice(config) as device:
        return measure(device, repeats=1)


@pytest.mark.sampled
@pytest.mark.parametrize(("preset", "dram"), MEMORIES)
def test_a_known_memory_is_recovered_exactly(preset: str, dram: Dram) -> None:
    found = measured(with_memory(preset, dram))
    assert found.fit.dram == dram
    assert (found.fit.error, found.spread) == (0, 0)


@pytest.mark.sampled
@pytest.mark.parametrize(("preset", "dram"), [*MEMORIES, *HIDDEN])
def test_a_layer_takes_the_same_cycles_with_the_measured_model(preset: str, dram: Dram) -> None:
    config = with_memory(preset, dram)
    program = layer_operator(LAYER, config, 2).program
    ours = simulate(program, config=replace(config, dram=measured(config).fit.dram), mode="timing").statistics
    assert ours.total_cycles == simulate(program, config=config, mode="timing").statistics.total_cycles


@pytest.mark.parametrize(("preset", "dram"), HIDDEN)
def test_hidden_figures_get_their_smallest_value(preset: str, dram: Dram) -> None:
    found = measured(with_memory(preset, dram)).fit
    assert found.error == 0
    for name in ("outstanding_reads", "outstanding_writes", "burst_gap"):
        assert getattr(found.dram, name) <= getattr(dram, name)
    for name in ("read_latency", "write_latency", "beat_cycles"):
        assert getattr(found.dram, name) == getattr(dram, name)


@pytest.mark.rtl
@pytest.mark.parametrize(
    "dram",
    [
        Dram(read_latency=10, write_latency=5, outstanding_reads=2, outstanding_writes=2, beat_cycles=1, burst_gap=0),
        Dram(read_latency=200, write_latency=90, outstanding_reads=8, outstanding_writes=4, beat_cycles=2, burst_gap=3),
    ],
)
def test_the_rtl_is_measured_exactly_and_a_layer_agrees(dram: Dram) -> None:
    config = with_memory("tiny", dram)
    operator = layer_operator(replace(LAYER, height=6, width=6), config, 2)
    inputs = pack(operator, random_data(replace(LAYER, height=6, width=6), config, 0))
    with RtlDevice(config) as device:
        found = measure(device, repeats=1).fit
        got = run(operator.program, inputs, device).statistics
    assert (found.dram, found.error) == (dram, 0)
    ours = simulate(operator.program, inputs, replace(config, dram=found.dram)).statistics
    assert ours.total_cycles == got.total_cycles


class Noisy(SimDevice):
    """A memory that takes up to 3 % longer, as refreshes make it."""

    name = "noisy"
    runs = 0

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        self.runs += 1
        return replace(stats, total_cycles=stats.total_cycles + stats.total_cycles * (self.runs % 4) // 100)


def test_a_noisy_memory_is_close() -> None:
    with Noisy(Config.preset("pynq_z1")) as device:
        found = measure(device, repeats=3)
    assert 0 < found.spread < 0.04
    assert found.fit.error < 0.03
    assert abs(found.fit.dram.read_latency - 80) <= 4
    assert found.fit.dram.beat_cycles == 1
    assert 0.95 < found.read_bytes_per_cycle / 8 <= 1.01


def test_the_model_carries_where_it_comes_from() -> None:
    config = with_memory("pynq_z1", Dram())
    model = measured(config).model("pynq://board:7968")
    assert model.dram == Dram()
    assert DramModel.from_text(json.dumps(model.to_dict()), "m") == model
    facts = {name: model.measured[name] for name in ("device", "config", "fingerprint", "clock_mhz")}
    assert facts == {
        "device": "pynq://board:7968",
        "config": "pynq_z1",
        "fingerprint": config.fingerprint,
        "clock_mhz": 100,
    }
    assert (model.measured["read_mb_s"], model.measured["write_mb_s"]) == (800, 800)
    assert model.measured["read_beats_per_cycle"] == 1
    assert model.measured["cycles"]["read entry"] == {"measured": 178, "simulated": 178}


def test_the_fit_does_not_look_at_the_memory_of_the_configuration() -> None:
    config, dram = (
        Config.preset("tiny"),
        Dram(read_latency=77, write_latency=5, outstanding_reads=2, outstanding_writes=2, beat_cycles=1, burst_gap=0),
    )
    known = probes(config)
    cycles = {name: time_program(each.program, replace(config, dram=dram)).total_cycles for name, each in known.items()}
    assert DramFit(config, known, cycles).run().dram == dram
