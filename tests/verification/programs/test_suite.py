# SPDX-License-Identifier: Apache-2.0
"""The suite of small programs: each verifies and takes no more cycles than are known to do, and
together they cover the instruction set.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vdla.compiler.operators.vdla.operator import Operator
from vdla.hardware.isa import COL, Opcode
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify
from vdla.verification.programs.suite import CASES, MACHINES, NAMES, programs

CYCLES = Path(__file__).parent / "golden" / "suite_cycles.json"
"""The fewest cycles that any choice of tiles is known to have given."""

# The closed form chooses the tiles of `tiny`, whose memory waits for requests; it is less exact.
BEHIND = {"conv3x3_1t_tiny": 1.21, "conv_grouped_2t_tiny": 1.12}


@pytest.mark.parametrize("operator", NAMES, indirect=True)
def test_every_program_of_the_suite_verifies_and_is_as_fast_as_the_best_known(operator: Operator) -> None:
    program = operator.program
    verdict = verify(program)
    assert verdict.ok, str(verdict)
    best = json.loads(CYCLES.read_text(encoding="utf-8"))[program.name]
    assert time_program(program).total_cycles <= BEHIND.get(program.name, 1.0) * best


def test_cycles_are_known_for_each_program_of_the_suite() -> None:
    assert [*json.loads(CYCLES.read_text(encoding="utf-8"))] == list(NAMES)


def test_names_and_programs_of_the_suite_are_unique() -> None:
    assert [program.name for program in programs()] == list(NAMES)
    assert len({program.name for program in programs()}) == len(programs()) == len(MACHINES) * (len(CASES) + 1)
    assert len({program.hash for program in programs()}) > len(MACHINES) * len(CASES) // 2


def test_the_suite_uses_every_instruction_and_every_token_queue() -> None:
    opcodes = {int(code) for program in programs() for code in program.columns[:, COL["opcode"]]}
    assert opcodes >= {Opcode.LOAD, Opcode.GEMM, Opcode.VECTOR, Opcode.STORE}
    for bit in ("pop_prev", "pop_next", "push_prev", "push_next"):
        assert any(program.columns[:, COL[bit]].any() for program in programs())
