# SPDX-License-Identifier: Apache-2.0
"""Scale and zero point of a tensor, from its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Parameters:
    """`scale` float32 and `zero_point` in the element type; scalars, or vectors along `axis`."""

    scale: Array
    zero_point: Array
    axis: int | None = None

    def quantised(self, real: Array) -> Array:
        """round(real / scale) + zero point, saturated."""
        shape = [1] * real.ndim
        if self.axis is not None:
            shape[self.axis] = -1
        limits = np.iinfo(self.zero_point.dtype)
        rounded = np.rint(real / self.scale.reshape(shape)) + self.zero_point.reshape(shape).astype(np.float64)
        return np.clip(rounded, limits.min, limits.max).astype(self.zero_point.dtype)


@dataclass(frozen=True, slots=True)
class Scheme:
    """How tensors are quantised.

    `power_of_two`: scales are powers of two and zero points even, so that float32 computes what
    integers do. `weight_bits`: with 7, no processor saturates sums of pairs of products.
    """

    power_of_two: bool = False
    uint8: bool = False
    per_channel: bool = True
    weight_bits: int = 8

    def activation(self, low: float, high: float) -> Parameters:
        """Asymmetric parameters of a range, which is extended to 0."""
        low, high = min(low, 0.0), max(high, 0.0)
        dtype = np.dtype("uint8" if self.uint8 else "int8")
        limits = np.iinfo(dtype)
        scale = self._scale(np.array((high - low) / 255 or 1.0))
        zero = limits.min - low / float(scale)
        zero = 2 * round(zero / 2) if self.power_of_two else round(zero)
        return Parameters(scale, np.array(np.clip(zero, limits.min, limits.max), dtype))

    def weight(self, values: Array, axis: int | None) -> Parameters:
        """Symmetric int8 parameters; `axis` of the channels, None for one scale."""
        axis = axis if self.per_channel else None
        others = tuple(at for at in range(values.ndim) if at != axis) if axis is not None else None
        largest = np.abs(values).max(axis=others)
        steps = 2 ** (self.weight_bits - 1) - 1
        scale = self._scale(np.where(largest > 0, largest / steps, 1.0))
        return Parameters(scale, np.zeros(scale.shape, np.int8), axis)

    def _scale(self, exact: Array) -> Array:
        scale = 2.0 ** np.ceil(np.log2(exact)) if self.power_of_two else exact
        return np.asarray(scale, np.float32)
