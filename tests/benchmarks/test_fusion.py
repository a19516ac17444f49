# SPDX-License-Identifier: Apache-2.0
"""The fusion benchmark: both sides agree, and its figures have the names that it declares."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.benchmarks import fusion
from vdla.benchmarks.harness import PairedTimes


def test_fused_and_separate_kernels_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "paired_times", lambda *_: PairedTimes(1.0, 2.0))
    result = fusion.run()
    assert [name for name in result.figures if name.endswith("speedup")] == [
        "conv_speedup",
        "depthwise_speedup",
        "lstm_speedup",
    ]
    assert all(value < 1e-6 for name, value in result.figures.items() if name.endswith("error"))
    assert [row["kernels"] for row in result.rows] == [4, 4, 17]


def test_the_cell_is_that_of_an_lstm() -> None:
    stages, arrays, results = fusion._lstm(np.random.default_rng(0))
    values = {name: array.astype(np.float64) for name, array in arrays.items()}
    weights = [values[name].transpose(0, 2, 1).reshape(512, 128) for name in ("w", "r")]
    gates = values["x"] @ weights[0].T + values["h"] @ weights[1].T + values["b"]
    i, o, f, g = np.split(gates, 4, axis=1)
    i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
    cell = f * values["c"] + i * np.tanh(g)
    found = fusion._kernel(stages, arrays, results)()
    np.testing.assert_allclose(found[0], cell, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], o * np.tanh(cell), rtol=1e-4, atol=1e-5)
