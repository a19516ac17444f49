# SPDX-License-Identifier: Apache-2.0
"""Shrinking: random programs find a seeded fault of the simulator; a few instructions show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from vdla.benchmarks.equality import explain, run
from vdla.hardware import timing
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import Program
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify
from vdla.verification.programs import suite
from vdla.verification.programs.cases import ProgramCase, random_batches
from vdla.verification.programs.device_pair import Arrays, Comparator, Conditions, PairResult
from vdla.verification.programs.random_programs import random_verified_program
from vdla.verification.programs.shrink import shrink, without_tokens

TINY = Config.preset("tiny")


@contextmanager
def agreeing(config: Config) -> Iterator[Comparator]:
    """A pair of equal simulators."""
    yield lambda program, arrays, conditions: PairResult(time_program(program, config))


@contextmanager
def broken(config: Config) -> Iterator[Comparator]:
    """The simulator against one that allows three LOADs in flight."""

    def compare(program: Program, arrays: Arrays, conditions: Conditions) -> PairResult:
        right = time_program(program, config)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(timing, "LOADS_IN_FLIGHT", 3)
            wrong = time_program(program, config)
        return PairResult(right, "\n".join(right.differences(wrong)))

    yield compare


@pytest.mark.parametrize("seed", range(8))
def test_removing_and_reassigning_tokens_preserves_a_program(seed: int) -> None:
    program = random_verified_program(TINY, seed, 40)
    assert np.array_equal(without_tokens(program).assembled().words, program.words)
    fewest = without_tokens(program).with_fewest_tokens()
    assert fewest is not None and verify(fewest.assembled()).ok


def contains(opcode: Opcode, **fields: int) -> Callable[[Program], bool]:
    """A predicate: whether a program has an instruction with this opcode and these fields."""

    def fails(program: Program) -> bool:
        rows = program.columns[program.columns[:, COL["opcode"]] == opcode]
        return any(all(row[COL[name]] >= value for name, value in fields.items()) for row in rows)

    return fails


def test_shrinking_keeps_what_the_failing_instruction_needs() -> None:
    """A GEMM needs micro-ops, inputs and weights; other instructions go, and its fields shrink."""
    fails = contains(Opcode.GEMM, loop0=2)
    program = next(p for p in (random_verified_program(TINY, seed, 40) for seed in range(50)) if fails(p))
    small = shrink(program, fails)
    assert verify(small).ok and fails(small)
    assert len(small) <= 6
    gemm = small.columns[small.columns[:, COL["opcode"]] == Opcode.GEMM][0]
    assert (gemm[COL["loop1"]], gemm[COL["emit"]]) == (1, 0)


def test_a_passing_program_is_not_shrunk() -> None:
    program = random_verified_program(TINY, 1, 30)
    assert shrink(program, lambda candidate: False) is program


def test_compiled_programs_shrink() -> None:
    program = min((p for p in suite.programs() if p.config.name == "tiny"), key=len)
    small = shrink(program, contains(Opcode.STORE), most_tries=150)
    assert verify(small).ok and len(small) < len(program)


def test_a_fault_is_found_shrunk_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(batches=random_batches(TINY, 0, 12), opened=broken, workers=0)
    assert result.figures["mismatches"] > 0
    assert sum(row["mismatches"] for row in result.rows) == result.figures["mismatches"]
    text = result.receipt["found"][0]
    assert text in capsys.readouterr().err
    lines = text.splitlines()
    assert lines[0].startswith("equality: ") and "seed" in lines[0] and "on tiny with Dram(" in lines[0]
    shrunk = next(line for line in lines if line.startswith("shrunk to "))
    assert int(shrunk.split()[2]) <= 6
    assert any(line.endswith("  # 0") for line in lines) and not any(line.startswith(".data ") for line in lines)


def test_equal_devices_have_no_mismatch() -> None:
    steps: list[tuple[str, int, int]] = []
    batches = random_batches(replace(TINY, name="one"), 7, 5)
    result = run(lambda *step: steps.append(step), batches=batches, opened=agreeing, workers=0)
    assert (result.figures["mismatches"], result.figures["programs"], result.receipt["found"]) == (0, 5, [])
    assert result.figures["instructions"] == sum(len(case.made()) for case in batches[0])
    assert steps == [("start", 0, 5), ("one, 0 mismatches", 5, 5)]


def test_a_case_names_the_seed_that_replays_it() -> None:
    assert str(ProgramCase(TINY, 7, 30)) == f"30 random instructions, seed 7, on tiny with {TINY.dram}"
    told = explain(ProgramCase(TINY, 2, 60), "first", broken)
    assert told.splitlines()[1].startswith("conditions: places data 0x")
    assert told.splitlines()[2] == "first"


def test_a_case_that_starts_at_random_says_so() -> None:
    case = ProgramCase(TINY, 7, 30, random_start=True)
    assert str(case).endswith(f"with {TINY.dram}, registers at random")
    assert str(case.conditions(case.made())).endswith("registers from seed 8")
