# SPDX-License-Identifier: Apache-2.0
"""Random programs: valid for any configuration, reproducible by seed, safe under the adversary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.random_config import random_config

from vdla.hardware.config import MIN_COMMAND_DEPTH, MIN_TOKEN_DEPTH, Config
from vdla.simulator.simulate import simulate
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify
from vdla.verification.adversary import Harm, attack
from vdla.verification.programs.cases import all_random
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_machines import DRAMS, MACHINES
from vdla.verification.programs.random_programs import random_verified_program

TINY = Config.preset("tiny")


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_of_random_configurations_verify_and_end(seed: int) -> None:
    config = random_config(np.random.default_rng(seed), largest_block=16)
    program = random_verified_program(config, seed, 40)
    verdict = verify(program)
    assert verdict.ok, f"seed {seed}: {verdict}"
    assert len(program) >= 40
    assert time_program(program).total_cycles > 0


@pytest.mark.sampled
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("count", [0, 1, 2, 12, 90])
def test_programs_of_any_length_run_on_every_machine(machine: Config, count: int) -> None:
    program = random_verified_program(machine, count, count)
    assert verify(program).ok, str(verify(program))
    assert len(program) >= count  # tokens may need SYNCs
    assert len(program) == count or count > 1
    assert set(simulate(program, random_arrays(program, 1)).outputs) == {"out"}


def test_equal_seeds_give_equal_programs_and_data() -> None:
    first, again, other = (random_verified_program(TINY, seed, 30) for seed in (5, 5, 6))
    assert first.hash == again.hash != other.hash
    arrays = [random_arrays(first, seed) for seed in (5, 5, 6)]
    assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])
    assert not np.array_equal(arrays[0]["data"], arrays[2]["data"])


def test_queue_depths_and_memory_do_not_change_the_program() -> None:
    deeper = replace(TINY, command_depth=9, token_depth=30, dram=DRAMS[2])
    assert random_verified_program(deeper, 3, 30).hash == random_verified_program(TINY, 3, 30).hash


@pytest.mark.parametrize("seed", range(6))
def test_no_interleaving_breaks_a_random_program(seed: int) -> None:
    assert attack(random_verified_program(TINY, seed, 40), seed, count=2).harm == Harm.NONE


def test_machines_include_the_smallest_queues_and_odd_shapes() -> None:
    assert any(m.command_depth == MIN_COMMAND_DEPTH and m.token_depth == MIN_TOKEN_DEPTH for m in MACHINES)
    assert {m.axi_bits for m in MACHINES} >= {32, 64, 256}
    assert any(m.block_in == 1 for m in MACHINES) and any(m.block_out == 1 for m in MACHINES)
    assert any(m.burst_beats & (m.burst_beats - 1) for m in MACHINES)


def test_random_cases_differ_within_and_between_seeds() -> None:
    seeds = [{(case.config, case.seed) for batch in all_random(seed) for case in batch} for seed in (0, 1)]
    assert len(seeds[0]) == len(seeds[1]) >= 300
    assert not seeds[0] & seeds[1]


@pytest.mark.parametrize(("preset", "expected"), [("tiny", "ba2c842eda39d978"), ("batch4", "4b141f6a44a8afa4")])
def test_programs_of_plain_machines_are_the_recorded_ones(preset, expected):
    assert random_verified_program(Config.preset(preset), 7, 70).hash == expected
