# SPDX-License-Identifier: Apache-2.0
"""Layers with gradients, for training in NumPy: `forward`, then `backward` in reverse order.

`parameters` are arrays that an optimiser changes in place; `gradients` has the same keys after
`backward`. Images are [N, C, H, W].
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Parameters = dict[str, Floats]

KERNEL = 3
POOL = 2
EPSILON = 1e-5
_MOMENTUM = 0.1  # of running statistics


class Layer(Protocol):
    """One layer."""

    parameters: Parameters
    gradients: Parameters

    def forward(self, x: Floats, training: bool) -> Floats:
        """The result; what `backward` needs is kept."""

    def backward(self, gradient: Floats) -> Floats:
        """The gradient of the operand from that of the result."""


class Convolution:
    """3x3, padded by 1, without a bias."""

    def __init__(self, rng: Generator, inputs: int, outputs: int, dtype: str = "float32") -> None:
        weight = rng.normal(0, (2 / (inputs * KERNEL**2)) ** 0.5, (outputs, inputs, KERNEL, KERNEL))
        self.parameters: Parameters = {"weight": weight.astype(dtype)}
        self.gradients: Parameters = {}

    def forward(self, x: Floats, training: bool) -> Floats:
        """[N, C, H, W] to [N, CO, H, W]."""
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), (2, 3))
        self._shape = x.shape
        self._columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * KERNEL**2)
        weight = self.parameters["weight"]
        result = self._columns @ weight.reshape(len(weight), -1).T
        return result.reshape(len(x), *x.shape[2:], -1).transpose(0, 3, 1, 2)

    def backward(self, gradient: Floats) -> Floats:
        """Gradients of weights and image."""
        weight = self.parameters["weight"]
        rows = gradient.transpose(0, 2, 3, 1).reshape(-1, len(weight))
        self.gradients["weight"] = (rows.T @ self._columns).reshape(weight.shape)
        count, channels, height, width = self._shape
        columns = (rows @ weight.reshape(len(weight), -1)).reshape(count, height, width, channels, KERNEL, KERNEL)
        padded = np.zeros((count, channels, height + 2, width + 2), gradient.dtype)
        for y in range(KERNEL):
            for x in range(KERNEL):
                padded[:, :, y : y + height, x : x + width] += columns[..., y, x].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]


class BatchNorm:
    """Normalisation of each channel; running statistics once training is over."""

    def __init__(self, channels: int, dtype: str = "float32") -> None:
        self.parameters: Parameters = {"weight": np.ones(channels, dtype), "bias": np.zeros(channels, dtype)}
        self.gradients: Parameters = {}
        self.mean, self.variance = np.zeros(channels, dtype), np.ones(channels, dtype)

    def forward(self, x: Floats, training: bool) -> Floats:
        """The same shape."""
        if training:
            mean, variance = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
            self.mean += _MOMENTUM * (mean - self.mean)
            self.variance += _MOMENTUM * (variance - self.variance)
        else:
            mean, variance = self.mean, self.variance
        self._inverse = 1 / np.sqrt(variance + EPSILON)
        self._normal = (x - _channels(mean)) * _channels(self._inverse)
        return self._normal * _channels(self.parameters["weight"]) + _channels(self.parameters["bias"])

    def backward(self, gradient: Floats) -> Floats:
        """The gradient through the statistics of the batch too."""
        axes = (0, 2, 3)
        self.gradients["bias"] = gradient.sum(axis=axes)
        self.gradients["weight"] = (gradient * self._normal).sum(axis=axes)
        scaled = gradient * _channels(self.parameters["weight"])
        centred = scaled - _channels(scaled.mean(axis=axes))
        along = self._normal * _channels((scaled * self._normal).mean(axis=axes))
        return (centred - along) * _channels(self._inverse)


class Rectifier:
    """max(x, 0)."""

    def __init__(self) -> None:
        self.parameters: Parameters = {}
        self.gradients: Parameters = {}

    def forward(self, x: Floats, training: bool) -> Floats:
        """The same shape."""
        self._positive = x > 0
        return np.where(self._positive, x, 0)

    def backward(self, gradient: Floats) -> Floats:
        """Zero where the operand was negative."""
        return np.where(self._positive, gradient, 0)


class MaxPool:
    """The largest of 2x2 pixels; sizes are even."""

    def __init__(self) -> None:
        self.parameters: Parameters = {}
        self.gradients: Parameters = {}

    def forward(self, x: Floats, training: bool) -> Floats:
        """[N, C, H, W] to [N, C, H / 2, W / 2]."""
        count, channels, height, width = x.shape
        tiles = x.reshape(count, channels, height // POOL, POOL, width // POOL, POOL)
        largest = tiles.max(axis=(3, 5), keepdims=True)
        shares: Floats = (tiles == largest).astype(x.dtype)
        self._shares: Floats = shares / shares.sum(axis=(3, 5), keepdims=True)
        return np.asarray(largest[:, :, :, 0, :, 0])

    def backward(self, gradient: Floats) -> Floats:
        """Equal shares where several pixels are the largest."""
        tiles = self._shares * gradient[:, :, :, None, :, None]
        count, channels, height, _, width, _ = tiles.shape
        return tiles.reshape(count, channels, height * POOL, width * POOL)


class AverageAndDense:
    """Global average pool and dense layer."""

    def __init__(self, rng: Generator, inputs: int, outputs: int, dtype: str = "float32") -> None:
        weight = rng.normal(0, (1 / inputs) ** 0.5, (outputs, inputs)).astype(dtype)
        self.parameters: Parameters = {"weight": weight, "bias": np.zeros(outputs, dtype)}
        self.gradients: Parameters = {}

    def forward(self, x: Floats, training: bool) -> Floats:
        """[N, C, H, W] to [N, classes]."""
        self._shape = x.shape
        self._features: Floats = x.mean(axis=(2, 3))
        return np.asarray(self._features @ self.parameters["weight"].T + self.parameters["bias"])

    def backward(self, gradient: Floats) -> Floats:
        """Every pixel gets an equal share."""
        self.gradients["weight"] = gradient.T @ self._features
        self.gradients["bias"] = gradient.sum(axis=0)
        pixels = self._shape[2] * self._shape[3]
        features = gradient @ self.parameters["weight"] / pixels
        return np.broadcast_to(np.asarray(features)[:, :, None, None], self._shape)


def _channels(vector: Floats) -> Floats:
    return vector[:, None, None]
