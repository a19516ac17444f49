# SPDX-License-Identifier: Apache-2.0
"""The event loop against a naive cycle-by-cycle model: all times and counters."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.naive_timing import Machine
from helpers.seeds import seeds

from vdla.hardware import timing as contract
from vdla.hardware.config import Config, Dram
from vdla.hardware.isa import COL, COUNTERS, UNITS, Opcode, columns
from vdla.hardware.program import place
from vdla.simulator.timing import time_columns
from vdla.verification.programs.extreme_programs import extreme_programs
from vdla.verification.programs.random_programs import random_verified_program

SHAPES = (
    Config.preset("pynq_z1"),
    Config.preset("tiny"),
    replace(Config.preset("pynq_z1"), axi_bits=128, block_out=32),
    replace(Config.preset("pynq_z1"), inp_bits=4, wgt_bits=2, batch=2),
)


def random_pages(rng):
    """The fields of a memory with pages; of one machine in two, none."""
    if rng.integers(2):
        return {}
    interval = int(rng.choice([0, 40, 300]))
    return {
        "bus_bytes": int(rng.choice([3, 8, 42, 115])),
        "banks": int(rng.choice([1, 2, 8])),
        "page_bytes": int(rng.choice([512, 4096])),
        "page_miss": int(rng.choice([0, 1, 3, 20])),
        "refresh_interval": interval,
        "refresh_cycles": int(rng.integers(0, interval // 2 + 1)) if interval else 0,
        "turnaround": int(rng.choice([0, 1, 7])),
    }


def random_machine(rng):
    """A machine with random queues, bursts and DRAM."""
    dram = Dram(
        read_latency=int(rng.choice([1, 2, 5, 20, 60])),
        write_latency=int(rng.choice([1, 3, 20])),
        outstanding_reads=int(rng.choice([1, 2, 3, 8])),
        outstanding_writes=int(rng.choice([1, 2, 8])),
        beat_cycles=int(rng.choice([1, 1, 2, 3])),
        burst_gap=int(rng.choice([0, 0, 1, 4])),
        **random_pages(rng),
    )
    shape = SHAPES[rng.integers(len(SHAPES))]
    ports = int(rng.choice([1, 1, 2, 4]))
    ports = min(ports, shape.axi_bits // 32)
    return replace(
        shape,
        dram=dram,
        axi_ports=ports,
        burst_beats=int(rng.choice([1, 2, 3, 4, 16, 64, 256 // ports])),
        command_depth=int(rng.choice([4, 5, 16])),
        token_depth=int(rng.choice([8, 9, 16])),
    )


def random_stalls(rng, table):
    """Random stalls of the VECTORs."""
    vectors = table[:, COL["opcode"]] == Opcode.VECTOR
    return np.where(vectors, rng.integers(0, 5, len(table)), 0).astype(np.int64)


def compare(seed, count):
    rng = np.random.default_rng(seed)
    config = random_machine(rng)
    compare_program(config, random_verified_program(config, seed, count, longest=12), rng, f"seed {seed}, {config}")


def compare_program(config, program, rng, where):
    table = columns(config, program.link(place(program)[0]))
    extra = random_stalls(rng, table)
    stream = int(rng.integers(0, 2048))
    timing = time_columns(config, table, stream, extra)
    machine = Machine(config, table, stream, extra)
    total = machine.run()
    assert timing.dispatches.tolist() == [i.D for i in machine.program], where
    assert timing.starts.tolist() == [i.S for i in machine.program], where
    assert timing.ends.tolist() == [i.E for i in machine.program], where
    assert timing.total == total, where
    for unit, row in zip(UNITS, timing.counters.tolist(), strict=True):
        naive = [machine.counts[unit][name] for name in COUNTERS]
        assert dict(zip(COUNTERS, row, strict=True)) == dict(zip(COUNTERS, naive, strict=True)), f"{unit}: {where}"
        assert sum(row) == total, where


DELAYS = ("DISPATCH", "COMMAND", "PORT", "MERGE", "ISSUE")


@pytest.mark.parametrize("seed", range(200, 212))
def test_the_models_agree_on_other_delays_as_well(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    for name in DELAYS:
        monkeypatch.setattr(contract, f"{name}_DELAY", int(rng.integers(1, 4)))
    for name in ("LOAD_SETUP", "LOAD_TAIL", "STORE_SETUP", "STORE_TAIL"):
        monkeypatch.setattr(contract, name, int(rng.integers(1, 4)))
    compare(seed, 40)


@pytest.mark.parametrize("seed", seeds(range(100), 40))
def test_timing_of_short_programs_equals_the_naive_machine(seed):
    compare(seed, 1 + seed % 30)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(100, 112))
def test_timing_of_long_programs_equals_the_naive_machine(seed):
    compare(seed, 200)


def test_timing_of_extreme_programs_equals_the_naive_machine():
    config = SHAPES[1]
    for program in extreme_programs(config, 0):
        compare_program(config, program, np.random.default_rng(0), program.name)
