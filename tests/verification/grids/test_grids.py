# SPDX-License-Identifier: Apache-2.0
"""A sample of the grids of all operators passes; faults of other kinds are told apart."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers.seeds import ALL
from onnx import defs

from vdla.benchmarks.grids import run
from vdla.benchmarks.harness import BenchmarkResult, SubjectError
from vdla.commands.bench_command import passed
from vdla.verification.grids import judge as judging
from vdla.verification.grids.cases import DRAFTERS, Form, Grid, with_results
from vdla.verification.grids.draw import NodeDraft
from vdla.verification.grids.judge import GridVerdict, died, judge
from vdla.verification.grids.references import difference, flat

WHOLE = Grid(tuple(DRAFTERS), seed=31, count=2)
SHARE = 5
PARTS = 16
# Of the two cases of a version, the first is with constants; a release tries both of each.
CHOSEN = [place for place in range(len(WHOLE)) if ALL or place % 2 == place // 2 % 2]


def faults(places):
    outcomes = [judge(WHOLE.case(place)) for place in places]
    return [f"{outcome.verdict.value}: {outcome.text}" for outcome in outcomes if outcome.is_fault]


@pytest.mark.short
def test_a_sample_of_all_operators_passes():
    assert faults(range(0, len(WHOLE), SHARE)) == []


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_version_of_every_operator_passes(part):
    assert faults(CHOSEN[part::PARTS]) == []


def case(operator, draft=None, form=None, number=0):
    made = Grid((operator,), seed=3, count=8).case(number)
    return replace(made, draft=draft or made.draft, form=form or made.form)


RELU = NodeDraft([np.array([[-1.0, 2.0]], np.float32)])


@pytest.mark.parametrize("form", Form)
def test_every_form_holds_the_same_node(form):
    made = case("Relu", RELU, form)
    assert judge(made).verdict is GridVerdict.PASSED
    assert set(made.arrays()) == (set() if form is Form.FOLDED else {"x0"})


def test_stale_declarations_are_wrong_by_one():
    stale = with_results(case("Relu", RELU).model(), RELU.inputs, more=1)
    assert [dim.dim_value for dim in stale.graph.output[0].type.tensor_type.shape.dim] == [2, 3]


def test_wrong_refused_and_crashed_cases_are_told_apart(monkeypatch):
    made = case("Relu", RELU)

    def failing(error):
        def compiled(*arguments):
            raise error

        return compiled

    verdicts = []
    for compiled in (
        lambda *arguments: [np.zeros((1, 2), np.float32)],
        failing(SubjectError("it must not")),
        failing(KeyError("x")),
    ):
        monkeypatch.setattr(judging, "_compiled", compiled)
        verdicts.append(judge(made))
    assert [item.verdict for item in verdicts] == [GridVerdict.WRONG, GridVerdict.REFUSED, GridVerdict.CRASHED]
    label = "Relu-6/0 (constants, opset 12): float32[1, 2]; : "
    assert [item.text for item in verdicts] == [
        f"{label}result 0: differs by up to 2 of 2 in 1 of 2",
        f"{label}it must not",
        f"{label}KeyError: 'x'",
    ]
    (death,) = died(Grid(("Relu",), seed=3, count=8), 0)
    assert death.verdict is GridVerdict.CRASHED
    assert death.text.endswith("the process must survive the case for 60 s, got its death")


def test_cases_without_references_are_set_aside():
    made = case("GlobalLpPool", NodeDraft([np.ones((1, 2, 3), np.float32)]), Form.CONSTANTS, number=8)
    outcome = judge(made)
    assert outcome.verdict is GridVerdict.SET_ASIDE
    assert "no reference: " in outcome.text


@pytest.mark.parametrize(
    ("one", "two", "text"),
    [
        (np.zeros(2), np.zeros(3), "result 0: shape [2], not [3]"),
        (np.zeros(2), np.zeros(2, np.float32), "result 0: type float64, not float32"),
        (np.array(["a"], object), np.array(["b"], object), "result 0: other strings"),
        (np.array([np.nan]), np.array([1.0]), "result 0: differs by up to nan of 1 in 1 of 1"),
        (np.array([1.0]), np.array([np.inf]), "result 0: other infinities or NaN"),
        (np.array([3], np.int8), np.array([4], np.int8), "result 0: differs by up to 1 of 4 in 1 of 1"),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), ""),
    ],
)
def test_differences_are_named(one, two, text):
    assert difference([one], [two]) == text


def test_sequences_are_compared_by_element():
    one = flat([[np.zeros(2), np.ones(3)], np.ones(1)])
    assert [array.tolist() for array in one] == [2, [0, 0], [1, 1, 1], [1]]
    assert difference(one, flat([[np.zeros(2)], np.ones(1)])) == "4 arrays, not 3"
    with pytest.raises(TypeError, match=r"^results must be arrays, got dict$"):
        flat([{}])


def test_a_tolerance_is_beyond_rounding():
    pair = [np.array([1.0])], [np.array([1.01])]
    assert difference(*pair, 0.02) == ""
    assert difference(*pair) == "result 0: differs by up to 0.01 of 1.01 in 1 of 1"


def test_nodes_before_the_node_make_its_operands():
    made = case("SequenceLength")
    assert [node.op_type for node in made.model().graph.node][-2:] == ["SequenceConstruct", "SequenceLength"]
    assert judge(made).verdict is GridVerdict.PASSED


def test_a_seed_draws_the_same_cases():
    grids = [Grid(("Conv", "Pad"), seed=seed, count=6) for seed in (1, 1, 2)]
    texts = [[grid.case(place).text for place in range(len(grid))] for grid in grids]
    assert texts[0] == texts[1] != texts[2]
    assert {case.form for case in map(grids[0].case, range(len(grids[0])))} == {
        Form.CONSTANTS, Form.INPUTS, Form.FOLDED
    }  # fmt: skip


def test_every_version_of_an_operator_has_cases():
    grid = Grid(("Clip",), count=3)
    since = Counter(grid.case(place).version.since for place in range(len(grid)))
    known = {int(item.since_version) for item in defs.get_all_schemas_with_history() if item.name == "Clip"}
    assert since == dict.fromkeys(known - {1}, 3)


def test_a_refused_case_fails_the_benchmark():
    figures = {"cases": 2, "wrong": 0, "crashed": 0, "refused": 1}
    assert not passed(BenchmarkResult("grids", figures, [], {}))
    assert passed(BenchmarkResult("grids", figures | {"refused": 0}, [], {}))
    assert passed(BenchmarkResult("mutants", {"refused": 9}, [], {}))


def test_the_benchmark_counts_cases_by_operator():
    result = run(subjects=["Relu", "Not"], count=2, workers=0)
    assert [(row["operator"], row["cases"], row["faults"]) for row in result.rows] == [("Relu", 6, []), ("Not", 2, [])]
    assert result.figures["operators"] == 2
    assert result.figures["passed"] + result.figures["set_aside"] == result.figures["cases"] == 8
    assert result.receipt["command"] == "vdla bench grids Relu Not --seed 0 --json -"
    with pytest.raises(SubjectError, match=r"^bench grids: operator must be one of Abs, .*, got Reul"):
        run(subjects=["Reul"])
