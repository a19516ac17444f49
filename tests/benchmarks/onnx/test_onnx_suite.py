"""ONNX's backend test suite passes: its node tests and the models that the package brings."""

from collections import Counter

from vdla.benchmarks.onnx.benchmark import run
from vdla.benchmarks.onnx.cases import case_names


def test_the_benchmark_counts_every_case():
    cases = [case for case in case_names() if case[1] in ("test_relu", "test_matmul_2d", "test_Linear")]
    result = run(cases=cases, workers=0)
    assert (result.figures["passed"], result.figures["cases"], result.figures["models_passed"]) == (2, 2, 1)
    assert result.rows == []
    assert Counter(category for category, _ in case_names())["node"] >= 1500
