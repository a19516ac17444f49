"""The suite of small programs: each verifies, and together they cover the instruction set."""

from __future__ import annotations

import pytest

from vdla.benchmarks.programs.suite import CASES, MACHINES, NAMES, programs
from vdla.compiler.operators.vdla.operator import Operator
from vdla.hardware.isa import COL, Opcode
from vdla.simulator.verify import verify


@pytest.mark.parametrize("operator", NAMES, indirect=True)
def test_every_program_of_the_suite_verifies(operator: Operator) -> None:
    verdict = verify(operator.program)
    assert verdict.ok, str(verdict)


def test_names_and_programs_of_the_suite_are_unique() -> None:
    assert [program.name for program in programs()] == list(NAMES)
    assert len({program.name for program in programs()}) == len(programs()) == len(MACHINES) * (len(CASES) + 1)
    assert len({program.hash for program in programs()}) > len(MACHINES) * len(CASES) // 2


def test_the_suite_uses_every_instruction_and_every_token_queue() -> None:
    opcodes = {int(code) for program in programs() for code in program.columns[:, COL["opcode"]]}
    assert opcodes >= {Opcode.LOAD, Opcode.GEMM, Opcode.VECTOR, Opcode.STORE}
    for bit in ("pop_prev", "pop_next", "push_prev", "push_next"):
        assert any(program.columns[:, COL[bit]].any() for program in programs())
