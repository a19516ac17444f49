# SPDX-License-Identifier: Apache-2.0
"""ONNX's backend test suite passes: its node tests and the models that the package brings."""

from collections import Counter
from zlib import crc32

import pytest
from helpers.seeds import lengths, sample

from vdla.benchmarks.onnx import SuiteVerdict, case_names, run, run_case

NO_TRAINING = "models are run, not trained: nothing differentiates a graph"
DECLINED = {"test_gradient_of_add": NO_TRAINING, "test_gradient_of_add_and_mul": NO_TRAINING}


SHARE = 3


def usual(case):
    """Whether a case runs without --long: one of SHARE by its name, and those declined."""
    return crc32(case[1].encode()) % SHARE == 0 or case[1] in DECLINED


def subject(case):
    """What a case is about, as its name begins; each of the few models, and of those that are
    declined, stands for itself.
    """
    category, name = case
    return {name.split("_")[1] if category == "node" and name not in DECLINED else name}


CHOSEN = set(sample(case_names(), subject))
CASES = [
    pytest.param(*case, marks=lengths(usual(case), case in CHOSEN))
    for case in case_names()
    if usual(case) or case in CHOSEN
]


def test_each_subject_has_a_case_in_the_long_tests():
    tried = [case.values for case in CASES if pytest.mark.short not in case.marks]
    assert set().union(*map(subject, tried)) == set().union(*map(subject, case_names()))
    assert len(tried) >= len(case_names()) / 4


@pytest.mark.parametrize(("category", "name"), CASES, ids=lambda part: part)
def test_case(category, name):
    outcome = run_case(category, name)
    if name in DECLINED:
        assert outcome.verdict is SuiteVerdict.DECLINED
        assert outcome.text.endswith(DECLINED[name])
    else:
        assert outcome.verdict in (SuiteVerdict.PASSED, SuiteVerdict.INCOMPARABLE), outcome.text


def test_the_benchmark_counts_every_case():
    cases = [case for case in case_names() if case[1] in ("test_relu", "test_matmul_2d", "test_Linear")]
    result = run(cases=cases, workers=0)
    assert (result.figures["passed"], result.figures["cases"], result.figures["models_passed"]) == (2, 2, 1)
    assert result.rows == []
    assert Counter(category for category, _ in case_names())["node"] >= 1500
