# SPDX-License-Identifier: Apache-2.0
"""The generated tests: views agree with the declarations, and planted faults are named."""

from functools import cache

import pytest
from helpers.extensions import narrow, pair, sad
from helpers.stateful import depthwise, running, table

import vdla
from vdla.benchmarks.evaluate.benchmark import run
from vdla.benchmarks.harness import SubjectError
from vdla.cli import main
from vdla.hardware.config import Config
from vdla.hardware.isa import isa_of
from vdla.verification.generated_tests import views
from vdla.verification.generated_tests.check import GeneratedTests, answer
from vdla.verification.generated_tests.faults import FAULTS
from vdla.verification.generated_tests.planted import plant, sample_machine
from vdla.verification.generated_tests.views import View

STATIC = (View.DECODER, View.FOOTPRINT, View.VERIFIER)
WITHOUT_KERNELS = [fault for fault in FAULTS if fault.view in STATIC]
IN_TEXT = [fault for fault in FAULTS if fault.view is View.ASSEMBLER]
TIMED = [fault for fault in FAULTS if fault.view is View.TIMING]


@cache
def stateful():
    return vdla.extend(Config.preset("tiny"), table, depthwise, running, sad)


def named(faults):
    return {"argvalues": faults, "ids": [fault.name for fault in faults]}


def first_named(fault, asked, seeds=range(40)):
    """The first view among `asked` that disagrees on some program; kernels are not compiled."""
    config = sample_machine()
    tests = GeneratedTests(config, next(fault.machines(config)), fault.planted)
    for seed in seeds:
        case = tests.case(seed)
        with tests.planted():
            view = next((view for view in asked if answer(views.VIEWS[view], case) is not None), None)
        if view is not None:
            return view
    return None


@pytest.mark.sampled
@pytest.mark.parametrize("fault", **named(WITHOUT_KERNELS))
def test_a_fault_is_named_by_the_view_that_it_is_in(fault):
    assert first_named(fault, STATIC) is fault.view


@pytest.mark.parametrize("fault", **named(IN_TEXT))
def test_a_fault_of_text_is_named_by_the_assembler(fault):
    assert first_named(fault, [View.DECODER, View.ASSEMBLER]) is View.ASSEMBLER


@pytest.mark.parametrize("fault", **named(TIMED))
def test_a_fault_of_timing_is_named_by_timing(fault):
    assert first_named(fault, [View.DECODER, View.FOOTPRINT, View.TIMING]) is View.TIMING


@pytest.mark.parametrize("fault", **named(FAULTS))
def test_a_fault_has_a_place_in_which_the_machine_differs_or_breaks_a_function(fault):
    machines = list(fault.machines(sample_machine()))
    assert machines
    if fault.change or fault.stage:
        assert sample_machine() not in machines


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("fault", **named([fault for fault in FAULTS if fault.view is View.FUNCTION]))
def test_a_fault_of_function_is_named_by_function(fault):
    (outcome,) = plant(fault, places=1)
    assert outcome.view == fault.view.value, outcome.finding


@pytest.mark.parametrize("seed", range(4))
def test_views_of_state_and_stage_agree_with_their_declarations(seed):
    case = GeneratedTests(stateful()).case(seed)
    asked = (*STATIC, View.ASSEMBLER, View.TIMING)
    assert [views.VIEWS[view](case) for view in asked] == [None] * len(asked)


def test_programs_write_read_and_emit_through_private_state():
    tests = GeneratedTests(stateful())
    isa = isa_of(stateful())
    rows = [row for seed in range(12) for row in tests.program(seed).columns]
    assert {isa.format_at(row).name for row in rows} >= {"TABLE_LOAD", "DW", "DW_TAPS", "DW_CLEAR", "RUN", "RUN_START"}
    assert any(row[isa.col["emit"]] == 3 for row in rows)


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("declared", [(table, depthwise, running, sad), (narrow, pair)], ids=["state", "groups"])
def test_all_views_agree_with_the_declarations(declared):
    tests = GeneratedTests(vdla.extend(Config.preset("tiny"), *declared))
    assert [tests.check(seed) for seed in range(12)] == [None] * 12


@pytest.mark.long
def test_the_benchmark_counts_what_it_does():
    faults = [fault for fault in FAULTS if fault.name in ("a field one bit narrower", "weight not read")]
    result = run(subjects=["mutants", "faults"], mutated=50, faults=faults)
    figures = result.figures
    assert (figures["planted"], figures["caught"], figures["survivors"]) == (2, 2, 0)
    assert (figures["mutants"], figures["mutants_missed"], figures["false_alarms"]) == (50, 0, 0)
    assert [(row["fault"], row["named by"]) for row in result.rows[-2:]] == [
        ("a field one bit narrower", "decoder"),
        ("weight not read", "footprint"),
    ]


def test_an_unknown_part_is_refused():
    with pytest.raises(SubjectError) as failure:
        run(subjects=["mismatch"])
    assert str(failure.value) == (
        "bench evaluate: part must be one of programs, mutants, faults, mismatches, examples, networks, got "
        "mismatch (did you mean mismatches?)"
    )


def test_the_command_prints_the_first_disagreement(tmp_path, capsys, monkeypatch):
    source = tmp_path / "double.py"
    source.write_text(
        """
import vdla
from vdla import te


def declare(config):
    old = te.placeholder((config.batch, config.block_out), "int32", "old")
    output = te.compute(old.shape, lambda b, o: old[b, o] + old[b, o], "acc")
    scopes = {"old": "acc", "acc": "acc"}
    return vdla.Extension(name="double", doc="Doubles.", output=output, scopes=scopes, in_place="old")
"""
    )
    monkeypatch.setattr(views, "VIEWS", views.VIEWS | {View.DECODER: lambda case: f"nothing, at seed {case.seed}"})
    monkeypatch.setattr("vdla.verification.generated_tests.check.VIEWS", views.VIEWS)
    assert main(["selftest", str(source), "--preset", "tiny", "--seed", "3"]) == 1
    assert capsys.readouterr().out == "decoder: nothing, at seed 3 (seed 3 on tiny)\n"
