# SPDX-License-Identifier: Apache-2.0
"""Random addresses: disjoint, reachable, at any beat; the same seed gives the same."""

from __future__ import annotations

from itertools import pairwise

import pytest

from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, placed_sizes
from vdla.hardware.timing import PAGE_BYTES
from vdla.verification.programs.random_data import HIGHEST, LOWEST, random_places
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.programs.random_programs import random_verified_program

WORD = 1 << 32


@pytest.mark.parametrize("config", MACHINES, ids=lambda config: config.name)
def test_places_are_disjoint_and_reachable(config: Config) -> None:
    program = random_verified_program(config, 1, 20)
    sizes = placed_sizes(program)
    drawn = [random_places(program, seed) for seed in range(200)]
    placed = [places for places in drawn if places is not None]
    assert 0.65 < len(placed) / len(drawn) < 0.85
    for places in placed:
        assert set(places) == set(sizes)
        ranges = sorted((at, at + sizes[name]) for name, at in places.items())
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ranges))
        for name, at in places.items():
            limit = HIGHEST if name == STREAM else min(HIGHEST, WORD * config.axi_bytes)
            assert at % config.axi_bytes == 0 and LOWEST <= at <= limit - sizes[name]
    everywhere = [(name, at) for places in placed for name, at in places.items()]
    assert any(at // WORD != (at + sizes[name] - 1) // WORD for name, at in everywhere)  # crosses 4 GiB
    assert any(at % PAGE_BYTES for _, at in everywhere)
    assert any(name == STREAM and at > WORD for name, at in everywhere)
    assert any(name == STREAM and at + sizes[name] + config.axi_bytes > HIGHEST for name, at in everywhere)


def test_seed_and_program_decide_the_places() -> None:
    program = random_verified_program(MACHINES[0], 1, 20)
    assert random_places(program, 3) == random_places(program, 3) != random_places(program, 4)
