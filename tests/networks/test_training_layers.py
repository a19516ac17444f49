# SPDX-License-Identifier: Apache-2.0
"""Gradients of the training layers against differences of their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vdla.networks.training_layers import (
    AverageAndDense,
    BatchNorm,
    Convolution,
    Layer,
    MaxPool,
    Rectifier,
)

Array = np.ndarray[Any, Any]
STEP = 1e-5


def layers() -> dict[str, Layer]:
    rng = np.random.default_rng(0)
    return {
        "convolution": Convolution(rng, 3, 4, "float64"),
        "batch norm": BatchNorm(3, "float64"),
        "rectifier": Rectifier(),
        "max pool": MaxPool(),
        "average and dense": AverageAndDense(rng, 3, 5, "float64"),
    }


def slope(layer: Layer, x: Array, upstream: Array, array: Array, at: tuple[int, ...]) -> float:
    """The derivative of sum(result * upstream) by one element of `array`."""
    values = []
    kept = array[at]
    for step in (STEP, -STEP):
        array[at] = kept + step
        values.append(float((layer.forward(x, training=True) * upstream).sum()))
    array[at] = kept
    return (values[0] - values[1]) / (2 * STEP)


@pytest.mark.parametrize("name", layers())
def test_gradients_are_those_of_small_differences(name: str) -> None:
    layer, rng = layers()[name], np.random.default_rng(1)
    x = rng.normal(size=(2, 3, 4, 6))
    upstream = rng.normal(size=layer.forward(x, training=True).shape)
    gradient = layer.backward(upstream).copy()
    known = {"x": (x, gradient)} | {
        key: (layer.parameters[key], layer.gradients[key].copy()) for key in layer.gradients
    }
    assert set(known) == {"x", *layer.parameters}
    for array, expected in known.values():
        assert array.shape == expected.shape
        for _ in range(12):
            at = tuple(int(rng.integers(extent)) for extent in array.shape)
            assert slope(layer, x, upstream, array, at) == pytest.approx(expected[at], rel=1e-4, abs=1e-6)


def test_batch_norm_uses_running_statistics_after_training() -> None:
    rng = np.random.default_rng(2)
    norm = BatchNorm(3, "float64")
    for _ in range(200):
        norm.forward(rng.normal(2.0, 3.0, (8, 3, 4, 4)), training=True)
    assert np.allclose(norm.mean, 2.0, atol=0.3)
    assert np.allclose(norm.variance, 9.0, rtol=0.15)
    one = norm.forward(np.full((1, 3, 1, 1), 2.0), training=False)
    assert np.allclose(one, 0.0, atol=0.1)
