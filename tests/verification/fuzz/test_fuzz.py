# SPDX-License-Identifier: Apache-2.0
"""The differential fuzzer: no findings on the compiler, one for each seeded fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.fuzz_deaths import DEADLY, dying

from vdla.benchmarks import fuzz
from vdla.compiler import ir
from vdla.compiler.schedule import Schedule, compute_at
from vdla.compiler.schedule.trace import is_primitive
from vdla.compiler.target import host
from vdla.runtime import native
from vdla.verification.fuzz import cases as fuzz_cases
from vdla.verification.fuzz.functions import random_problem
from vdla.verification.fuzz.schedules import PRIMITIVES
from vdla.verification.isolated_batches import run_batches

FEW = 60


def test_a_short_run_finds_no_disagreement() -> None:
    result = fuzz.run(cases=FEW, workers=0)
    assert result.figures["cases"] == FEW
    assert result.receipt["wrong"] == {}
    assert result.figures["disagreements"] == 0
    assert result.figures["rewrites_accepted"] > FEW < result.figures["rewrites_refused"]


def test_every_primitive_is_drawn() -> None:
    assert set(PRIMITIVES) == {name for name, method in vars(Schedule).items() if is_primitive(method)}


def test_a_seed_replays_a_fuzz_case() -> None:
    first, second = fuzz_cases.run_case(7, native=False), fuzz_cases.run_case(7, native=False)
    assert first == second
    assert random_problem(7).fn == random_problem(7).fn


def test_random_functions_cover_the_expression_language() -> None:
    texts = [str(random_problem(seed).fn) for seed in range(300)]
    for part in (
        "scan ",
        "reduce ",
        "[n",
        "select(",
        "int64(",
        "bfloat16",
        "exp(",
        "init:",
        " // ",
        "float16",
        "bool[",
    ):
        assert any(part in text for text in texts), part


def test_an_unsound_primitive_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_at, "check_flow", lambda fn, block, where: None)  # moves may lose values
    outcomes = (fuzz_cases.run_case(seed, native=False) for seed in range(400))
    wrong = next(outcome for outcome in outcomes if outcome.kind == "interpreter" and len(outcome.trace) > 1)
    small = fuzz_cases.shrink(wrong)
    assert any(name in str(small.trace) for name in ("compute_at", "reverse_compute_at"))
    assert len(small.trace) <= len(wrong.trace)


def test_cases_target_this_cpu_and_lesser_ones() -> None:
    machine = host()
    targets = [fuzz_cases.target_of(seed) for seed in range(12)]
    assert targets[::2] == [machine] * 6
    assert all(t.architecture == machine.architecture and machine.has(*t.features) for t in targets)
    assert len({t.name for t in targets}) >= 2


def test_wrong_native_code_is_found_shrunk_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = native.build
    monkeypatch.setattr(native, "build", lambda fn, **options: real(with_other_numbers(fn), **options))
    wrong = next(o for o in map(fuzz_cases.run_case, range(20)) if o.fault and len(o.trace) > 2)
    assert wrong.kind == "native"
    small = fuzz_cases.shrink(wrong)
    assert len(small.trace) == 0
    space: dict[str, object] = {}
    exec(compile(small.script, "script", "exec"), space)
    assert small.fault in small.script


def with_other_numbers(fn: ir.Function) -> ir.Function:
    """The function with 1 added to every value that is stored."""

    def changed(stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.Store):
            return ir.with_children(stmt, tuple(changed(child) for child in ir.children(stmt)))
        dtype = fn.buffers[stmt.buffer].dtype
        if dtype == "bool":
            return replace(stmt, value=ir.Binary("xor", stmt.value, ir.Const(True, "bool")))
        return replace(stmt, value=ir.Binary("add", stmt.value, ir.Const(1, dtype)))

    return replace(fn, body=changed(fn.body))


def test_a_case_that_kills_its_process_is_reported() -> None:
    batches = list(run_batches([range(0, 2), range(2, 5)], 1, dying, fuzz.died))
    assert sum(batch.cases for batch in batches) == 5
    (wrong,) = [outcome for batch in batches for outcome in batch.wrong]
    assert (wrong.seed, wrong.kind) == (DEADLY, "crash")
