# SPDX-License-Identifier: Apache-2.0
"""For which machines a deadlock holds: those of the smallest queues, without overlap in a unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.hardware.config import MIN_COMMAND_DEPTH, MIN_TOKEN_DEPTH, Config
from vdla.hardware.isa import Sync, Unit, encode
from vdla.hardware.program import Program
from vdla.hardware.timing import LOADS_IN_FLIGHT, STORES_IN_FLIGHT
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program
from vdla.simulator.verify import Kind, verify

LEAST = replace(Config.preset("tiny"), command_depth=MIN_COMMAND_DEPTH, token_depth=MIN_TOKEN_DEPTH)
VERIFIED = MIN_TOKEN_DEPTH + 1 + MIN_COMMAND_DEPTH


def ahead(unit: Unit, count: int) -> Program:
    """So many tokens that a unit pushes to compute before compute pops the first one."""
    push = {"push_next": 1} if unit < Unit.COMPUTE else {"push_prev": 1}
    pop = {"pop_prev": 1} if unit < Unit.COMPUTE else {"pop_next": 1}
    none = np.full(2 * count, -1, np.int32)
    words = encode(LEAST, [Sync(unit, **push)] * count + [Sync(Unit.COMPUTE, **pop)] * count)
    return Program(config=LEAST, name="ahead", words=words, tensors=(), tensor_of=none, source_lines=(), source_of=none)


@pytest.mark.parametrize(("unit", "in_flight"), [(Unit.LOAD, LOADS_IN_FLIGHT), (Unit.STORE, STORES_IN_FLIGHT)])
def test_a_refused_program_may_end_where_units_overlap(unit: Unit, in_flight: int) -> None:
    """As docs/verifier.md says: 13 tokens are verified, 14 to 16 end all the same, 17 hang."""
    most = MIN_TOKEN_DEPTH + in_flight + MIN_COMMAND_DEPTH
    assert (VERIFIED, most) == (13, 16)
    assert verify(ahead(unit, VERIFIED)).ok
    for count in range(VERIFIED + 1, most + 2):
        assert [finding.kind for finding in verify(ahead(unit, count)).findings] == [Kind.DEADLOCK]
    for count in range(VERIFIED, most + 1):
        assert len(time_program(ahead(unit, count)).ends) == 2 * count
    with pytest.raises(SimulationError, match="deadlocked"):
        time_program(ahead(unit, most + 1))
