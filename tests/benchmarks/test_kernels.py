# SPDX-License-Identifier: Apache-2.0
"""Every operator at its smallest size gives the results of ONNX Runtime; figures and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vdla.benchmarks import harness
from vdla.benchmarks.kernels import benchmark
from vdla.benchmarks.kernels.operators import OPERATORS, drawn_case
from vdla.benchmarks.kernels.sides import OurKernels

pytest.importorskip("onnxruntime", reason="needs onnxruntime, with which results are compared")

EXACT = {"arg_max", "concat", "gather", "max_pool", "reflect_pad", "slice", "split", "top_k"}


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPERATORS)
def test_results_are_those_of_onnx_runtime(name: str) -> None:
    row = benchmark.measure(name, OPERATORS[name].sizes[0], seed=0, rounds=1)
    assert row["error"] == 0 if name in EXACT else row["error"] < 5e-6
    assert row["ratio"] > 0


def test_a_difference_is_that_over_the_greatest_value() -> None:
    expected = np.array([1, -8], np.float32)
    assert benchmark.difference(np.array([1, -6], np.float32), expected) == 0.25


def test_operands_depend_on_the_seed_and_the_size() -> None:
    first, again, other = (drawn_case("add", size, 3) for size in [(1, 2, 3, 3), (1, 2, 3, 3), (1, 2, 3, 4)])
    np.testing.assert_array_equal(first.inputs[0], again.inputs[0])
    assert other.inputs[0].ravel()[0] != first.inputs[0].ravel()[0]


def test_runs_repeat_on_the_same_inputs() -> None:
    kernels = OurKernels(drawn_case("softmax", (2, 3, 5), 0))
    expected = kernels.results[0]
    kernels()
    kernels()
    np.testing.assert_array_equal(kernels.current_results()[0], expected)


def test_sizes_grow() -> None:
    for name, operator in OPERATORS.items():
        elements = [sum(array.size for array in drawn_case(name, size, 0).inputs) for size in operator.sizes]
        work = [np.prod(size, dtype=float) for size in operator.sizes]
        assert elements == sorted(elements) or work == sorted(work), name


def test_figures_are_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = iter([4.0, 0.5, 0.5, 2.0, 0.5, 64.0])
    monkeypatch.setattr(benchmark, "measure", lambda *_: {"ratio": next(ratios), "error": 1e-7})
    result = benchmark.run(seed=7, subjects=["add", "tanh"])
    assert result.figures == {"geomean": 2.0, "worst": 0.5, "below": 3, "error": 1e-7}
    assert result.receipt["seed"] == 7
    assert result.receipt["threads"] == 1


def test_unknown_operators_are_named() -> None:
    with pytest.raises(harness.SubjectError) as error:
        benchmark.run(subjects=["soft_max"])
    rule = f"bench kernels: the operator must be one of {', '.join(OPERATORS)}"
    assert str(error.value) == f"{rule}, got soft_max (did you mean softmax?)"


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "find_spec", lambda name: None if name == "onnx" else Path())
    with pytest.raises(harness.LibraryError) as error:
        benchmark.run()
    assert str(error.value) == 'bench kernels: onnx must be installed, got none (pip install "vdla[dev]")'
