# SPDX-License-Identifier: Apache-2.0
"""The benchmark of TensorFlow Lite counts what differs from the reference."""

import numpy as np
import pytest

from vdla.benchmarks import tflite as benchmark

pytest.importorskip("tflite")


@pytest.fixture
def few_cases(monkeypatch):
    every = benchmark.operator_cases
    wanted = ("ADD", "LOGISTIC")
    monkeypatch.setattr(benchmark, "operator_cases", lambda *a: [c for c in every(0, 1) if c.operator in wanted])
    monkeypatch.setattr(benchmark, "TINY_MODELS", {"one": benchmark.TINY_MODELS["anomaly_detection"]})


def test_exact_operators_and_models_are_counted(few_cases):
    figures = benchmark.run().figures
    assert figures["operators"] == figures["bit_exact"] == 2
    assert (figures["models"], figures["wrong"]) == (1, 0)
    assert figures["machine_most"] <= 1


def test_a_result_that_differs_is_wrong(few_cases, monkeypatch):
    compute = benchmark.reference_outputs
    monkeypatch.setattr(benchmark, "reference_outputs", lambda *a: [np.bitwise_xor(v, 1) for v in compute(*a)])
    figures = benchmark.run().figures
    assert (figures["bit_exact"], figures["models"], figures["wrong"]) == (0, 0, 3)
