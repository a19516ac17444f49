# SPDX-License-Identifier: Apache-2.0
"""The check on whole arrays against the walks that look at one instruction after the other."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.hand_programs import TINY

from vdla.hardware.isa import IsaError, check
from vdla.hardware.program import Program
from vdla.simulator.verify import Finding
from vdla.simulator.verify import clear as alike
from vdla.simulator.verify import clear as module
from vdla.simulator.verify.accesses import program_accesses
from vdla.simulator.verify.clear import clear
from vdla.simulator.verify.deadlock import token_findings
from vdla.simulator.verify.races import RaceCheck
from vdla.simulator.verify.tokens import token_run
from vdla.verification.programs import suite
from vdla.verification.programs.mutation import mutants
from vdla.verification.programs.random_programs import random_draft


def warnings_by_walking(program: Program) -> tuple[Finding, ...] | None:
    """The warnings about a program without findings, None if it has any."""
    run, accesses = token_run(program.columns), program_accesses(program)
    races = RaceCheck(program, accesses, run)
    found = [*accesses.findings, *token_findings(program, run), *races.findings()]
    return None if found else tuple(races.warnings())


def agree(program: Program) -> bool:
    """Whether the program is clear, on which both must agree; False for invalid words."""
    try:
        check(program.config, program.words)
    except IsaError:
        return False
    found = clear(program, token_run(program.columns))
    assert found == warnings_by_walking(program)
    return found is not None


@pytest.mark.sampled
@pytest.mark.parametrize("most_pairs", [3, 1 << 20])
@pytest.mark.parametrize("operator", suite.NAMES[::4], indirect=True)
def test_programs_of_templates_and_their_mutants_are_judged_alike(operator, most_pairs, monkeypatch):
    monkeypatch.setattr(module, "_MOST_PAIRS", most_pairs)
    assert agree(operator.program)
    mutated = mutants(operator.program, 12 if most_pairs > 3 else 3, np.random.default_rng(0))
    for mutant in mutated:
        agree(mutant.program)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_and_their_mutants_are_judged_alike(seed):
    draft = random_draft(TINY, seed, 50, longest=12)
    program = draft.program(draft.needed_tokens)
    assert agree(program)
    assert not all(agree(mutant.program) for mutant in mutants(program, 20, np.random.default_rng(seed)))


def test_classes_do_not_depend_on_the_checksum(monkeypatch):
    """Rows of equal checksum that differ are told apart."""
    program = suite.operator(suite.NAMES[0]).program
    expected = [rows.tolist() for rows in alike.classes(program)]
    monkeypatch.setattr(alike.np.random, "default_rng", lambda seed: Zeros())
    assert sorted(rows.tolist() for rows in alike.classes(program)) == sorted(expected)


class Zeros:
    """Weights of 1, so that many checksums are equal."""

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        return np.zeros(size, np.int64)
