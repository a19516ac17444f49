# SPDX-License-Identifier: Apache-2.0
"""Mean and variance of activations, predicted layer by layer.

Channels and positions count as independent, and sums as normally distributed. The predictions are
the statistics of batch normalisation in networks with random weights: they need no forward pass,
whose last bits would depend on the machine, and so models are equal everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

_DIGITS = 4  # statistics are rounded, since the last bits of a sum depend on the machine
_STEPS = 800  # of the numerical integration
_REACH = 8.0  # its end, in standard deviations


@dataclass(frozen=True, slots=True)
class Moments:
    """`mean` and `variance` of each channel, float64 [C]."""

    mean: Floats
    variance: Floats


def standard(channels: int) -> Moments:
    """Mean 0 and variance 1."""
    return Moments(np.zeros(channels), np.ones(channels))


def rounded(values: Floats) -> Floats:
    """float64 values to four significant decimal digits."""
    magnitude = np.floor(np.log10(np.maximum(np.abs(values), 1e-12)))
    unit = 10.0 ** (magnitude - (_DIGITS - 1))
    return np.asarray(np.round(values / unit) * unit)


def weighted(inputs: Moments, weight: Floats, groups: int = 1) -> Moments:
    """Moments of sums over the inputs of a group.

    `weight` [groups, CO / groups, C / groups, ...]: the last dimensions are taps of one input.
    """
    mean, variance = (values.reshape(groups, 1, -1) for values in (inputs.mean, inputs.variance))
    taps = weight.astype(np.float64).reshape(*weight.shape[:3], -1)
    return Moments(
        (taps.sum(axis=3) * mean).sum(axis=2).reshape(-1),
        ((taps**2).sum(axis=3) * variance).sum(axis=2).reshape(-1),
    )


def rectified(inputs: Moments) -> Moments:
    """Moments of max(x, 0) for normally distributed x."""
    spread = np.sqrt(inputs.variance)
    ratio = inputs.mean / spread
    density = np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
    below = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in ratio])
    mean = inputs.mean * below + spread * density
    square = (inputs.mean**2 + inputs.variance) * below + inputs.mean * spread * density
    return Moments(mean, square - mean**2)


def largest_rectified(inputs: Moments, count: int) -> Moments:
    """Moments of the largest of `count` independent max(x, 0) for normally distributed x."""
    spread = np.sqrt(inputs.variance)
    ends = np.maximum(inputs.mean, 0) + _REACH * spread
    points = (np.arange(_STEPS) + 0.5)[:, None] / _STEPS * ends
    scores = (points - inputs.mean) / spread / math.sqrt(2)
    # P(largest > t); the integrals over t of it and of 2 t times it are the moments.
    exceeds = 1 - (np.vectorize(math.erfc)(-scores) / 2) ** count
    step = ends / _STEPS
    mean = exceeds.sum(axis=0) * step
    square = (2 * points * exceeds).sum(axis=0) * step
    return Moments(mean, square - mean**2)


def applied(function: Callable[[Floats], Floats], inputs: Moments) -> Moments:
    """Moments of a function of normally distributed x."""
    scores = ((np.arange(_STEPS) + 0.5) / _STEPS * 2 - 1)[:, None] * _REACH
    weights = np.exp(-(scores**2) / 2)
    weights /= weights.sum()
    values = function(inputs.mean + scores * np.sqrt(inputs.variance))
    mean = (weights * values).sum(axis=0)
    return Moments(mean, (weights * values**2).sum(axis=0) - mean**2)


def multiplied(left: Moments, right: Moments) -> Moments:
    """Moments of a product."""
    mean = left.mean * right.mean
    return Moments(mean, (left.variance + left.mean**2) * (right.variance + right.mean**2) - mean**2)


def added(left: Moments, right: Moments) -> Moments:
    """Moments of a sum."""
    return Moments(left.mean + right.mean, left.variance + right.variance)
