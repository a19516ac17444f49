# SPDX-License-Identifier: Apache-2.0
"""Statistics over batches against NumPy on all values at once."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vdla.compiler.graph.quantise import QuantiseError, ValueStatistics


@pytest.mark.parametrize("seed", range(5))
def test_histogram_of_growing_batches(seed):
    random = np.random.default_rng(seed)
    spreads = 10.0 ** random.uniform(-3, 4, 6)
    batches = [(random.standard_normal((4, 3, 5)) * spread + random.normal()).astype(np.float32) for spread in spreads]
    statistics = ValueStatistics("x")
    for batch in batches:
        statistics.update(batch)
    every = np.concatenate([batch.reshape(-1) for batch in batches]).astype(np.float64)
    assert (statistics.low, statistics.high, statistics.elements) == (every.min(), every.max(), every.size)
    assert len(statistics.counts) <= 8192
    edges = (statistics.first + np.arange(len(statistics.counts) + 1)) * statistics.width
    wanted = np.histogram(every, edges)[0]
    assert statistics.counts.sum() == every.size
    np.testing.assert_array_equal(statistics.counts, wanted)


def test_means_of_channels():
    random = np.random.default_rng(0)
    batches = [random.random((n, 3, 4, 5)).astype(np.float32) for n in (2, 7)]
    images, rows = ValueStatistics("x"), ValueStatistics("x", -1)
    for batch in batches:
        images.update(batch)
        rows.update(batch)
    every = np.concatenate(batches)
    np.testing.assert_allclose(images.means, every.mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(rows.means, every.mean(axis=(0, 1, 2)), rtol=1e-6)


def test_constant_and_empty_batches():
    statistics = ValueStatistics("x")
    statistics.update(np.zeros((0, 3), np.float32))
    assert statistics.elements == 0
    statistics.update(np.zeros((2, 3), np.float32))
    assert (statistics.low, statistics.high, statistics.counts.sum()) == (0, 0, 6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_name(bad):
    values = np.zeros((2, 3), np.float32)
    values[1, 1] = bad
    with pytest.raises(
        QuantiseError, match=f"^calibration: conv1 must be finite, got {re.escape(str(bad))} in 1 of 6$"
    ):
        ValueStatistics("conv1").update(values)
