# SPDX-License-Identifier: Apache-2.0
"""Predicted moments against those of many samples."""

from __future__ import annotations

import numpy as np

from vdla.networks.moments import Moments, largest_rectified, rectified, rounded, weighted

SAMPLES = 200_000


def normal(moments: Moments, rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(moments.mean, np.sqrt(moments.variance), (*shape, len(moments.mean)))


def check(predicted: Moments, samples: np.ndarray) -> None:
    assert np.allclose(predicted.mean, samples.mean(axis=0), atol=0.02)
    assert np.allclose(predicted.variance, samples.var(axis=0), rtol=0.03)


INPUTS = Moments(np.array([0.3, -0.5, 0.0]), np.array([1.0, 0.5, 2.0]))


def test_moments_of_rectified_values() -> None:
    samples = normal(INPUTS, np.random.default_rng(0), SAMPLES)
    check(rectified(INPUTS), np.maximum(samples, 0))


def test_moments_of_the_largest_rectified_value() -> None:
    samples = normal(INPUTS, np.random.default_rng(1), SAMPLES, 4)
    check(largest_rectified(INPUTS, 4), np.maximum(samples, 0).max(axis=1))
    one = largest_rectified(INPUTS, 1)
    assert np.allclose(one.mean, rectified(INPUTS).mean, atol=1e-3)


def test_moments_of_weighted_sums() -> None:
    rng = np.random.default_rng(2)
    weight = rng.normal(size=(1, 2, 3, 4))
    samples = normal(INPUTS, rng, SAMPLES, 4)
    check(weighted(INPUTS, weight), np.einsum("stc,oct->so", samples, weight[0]))


def test_moments_of_grouped_sums() -> None:
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(3, 2, 1, 4))
    samples = normal(INPUTS, rng, SAMPLES, 4)
    check(weighted(INPUTS, weight, groups=3), np.einsum("stg,got->sgo", samples, weight[:, :, 0]).reshape(SAMPLES, 6))


def test_statistics_keep_four_digits() -> None:
    values = np.array([123456.0, -0.00123456, 0.0, 1.0])
    assert np.allclose(rounded(values), [123500.0, -0.001235, 0.0, 1.0], rtol=1e-12)
