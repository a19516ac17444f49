# SPDX-License-Identifier: Apache-2.0
"""Scales and zero points: int8 activations, asymmetric unless an operator needs the zero point 0,
and symmetric int8 weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.quantise.ranges import LEVELS, Range
from vdla.compiler.graph.quantise.statistics import Float64, check_finite

Float32 = npt.NDArray[np.float32]
_LARGEST = 127
_SHRINK = np.linspace(1, 0.7, 13)
_LEAST_SCALE = np.float32(2.0**-100)


@dataclass(frozen=True, slots=True)
class ActivationParameters:
    """q = round(x / scale) + zero_point, int8."""

    scale: np.float32
    zero_point: int

    @property
    def range(self) -> Range:
        """The least and the greatest value that integers stand for."""
        return float((-128 - self.zero_point) * self.scale), float((_LARGEST - self.zero_point) * self.scale)

    @property
    def reach(self) -> int:
        """The greatest distance of an integer from the zero point."""
        return max(self.zero_point + 128, _LARGEST - self.zero_point)

    def rounded(self, values: npt.NDArray[np.floating[Any]]) -> Float64:
        """The values after quantisation and dequantisation."""
        scale = float(self.scale)
        integers = np.clip(np.rint(values / scale) + self.zero_point, -128, _LARGEST)
        return np.asarray((integers - self.zero_point) * scale, np.float64)


@dataclass(frozen=True, slots=True)
class WeightParameters:
    """Integers, and a scale for each output; `raised` are the outputs with a scale increased so
    that sums fit into int32.
    """

    values: npt.NDArray[np.int8]
    scale: Float32
    raised: tuple[int, ...] = ()


def activation_parameters(given: Range, *, symmetric: bool = False) -> ActivationParameters:
    """The parameters of a range, which is extended to 0, and if `symmetric` to the other side."""
    low, high = min(given[0], 0.0), max(given[1], 0.0)
    scale = np.float32(max(-low, high) / _LARGEST if symmetric else (high - low) / (LEVELS - 1))
    if not scale >= _LEAST_SCALE:
        return ActivationParameters(np.float32(1), 0)
    if symmetric:
        return ActivationParameters(scale, 0)
    zero_point = int(np.clip(np.rint(-128 - low / float(scale)), -128, _LARGEST))
    return ActivationParameters(scale, zero_point)


def quantise_weight(
    where: str, weight: Array, axis: int | None, least_squares: bool, bits: int = 8, least: Float64 | None = None
) -> WeightParameters:
    """A weight with a scale along `axis`, or with one scale, by its maximum or by squared error,
    but not below `least`. Integers are symmetric, of `bits` bits.

    Weights that are all 0 have the scale `least`, or 1 where that is 0.

    Raises:
        QuantiseError: the weight contains NaN or infinity.
    """
    check_finite(where, weight)
    rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1) if axis is not None else weight.reshape(1, -1)
    rows, largest = rows.astype(np.float64), 2 ** (bits - 1) - 1
    scale = np.abs(rows).max(axis=1, initial=0) / largest
    least = np.zeros(len(rows)) if least is None else least
    used = scale >= _LEAST_SCALE
    scale = np.where(used, scale, 1.0)
    if least_squares:
        scale = _least_squares(rows, scale, largest)
    raised = used & (scale < least)
    scale = np.where(raised | (~used & (least > 0)), np.maximum(least, _LEAST_SCALE), scale).astype(np.float32)
    sides = [1] * weight.ndim
    if axis is not None:
        sides[axis] = -1
    values = np.clip(np.rint(weight / scale.reshape(sides)), -largest, largest).astype(np.int8)
    return WeightParameters(values, scale, tuple(np.flatnonzero(raised).tolist()))


def _least_squares(rows: Float64, scale: Float64, largest: int) -> Float64:
    """For each row the scale of the least squared error among shrunk ones."""
    best, least = scale, np.full(len(rows), np.inf)
    for shrink in _SHRINK:
        tried = scale * shrink
        integers = np.clip(np.rint(rows / tried[:, None]), -largest, largest)
        error = ((integers * tried[:, None] - rows) ** 2).sum(axis=1)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return best
