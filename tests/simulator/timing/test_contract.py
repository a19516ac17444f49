"""The event model against the machine stepped cycle by cycle: every start and end, every counter."""

import numpy as np
import pytest
from helpers.naive_timing import Machine
from helpers.random_streams import random_config, random_conflicts, random_stream

from vdla.hardware.isa import instruction_columns
from vdla.simulator.stats import COUNTERS, UNITS
from vdla.simulator.timing.timing import time_columns


def compare(seed, count):
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    columns = instruction_columns(config, random_stream(rng, config, count))
    extra = random_conflicts(rng, columns)
    stream = int(rng.integers(0, 2048))
    timing = time_columns(config, columns, stream, extra)
    machine = Machine(config, columns, stream, extra)
    total = machine.run()
    where = f"seed {seed}, {config}"
    assert timing.dispatches.tolist() == [i.D for i in machine.program], where
    assert timing.starts.tolist() == [i.S for i in machine.program], where
    assert timing.ends.tolist() == [i.E for i in machine.program], where
    assert timing.total == total, where
    for unit, row in zip(UNITS, timing.counters.tolist(), strict=True):
        naive = [machine.counts[unit][name] for name in COUNTERS]
        assert dict(zip(COUNTERS, row, strict=True)) == dict(zip(COUNTERS, naive, strict=True)), f"{unit}: {where}"
        assert sum(row) == total, where


@pytest.mark.parametrize("seed", range(100))
def test_short_streams(seed):
    compare(seed, 1 + seed % 30)


@pytest.mark.parametrize("seed", range(100, 112))
def test_long_streams(seed):
    compare(seed, 200)
