# SPDX-License-Identifier: Apache-2.0
"""Weights of four bits in groups of inputs, each with a small factor of its output's scale.

A weight is q * m * s: q from -8 to 7, m from 1 to 16 for the group, s for the output. So q * m fits
int8, and sums of a group times m are those of an int8 weight, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.integer.common_scale import MOST_FACTOR
from vdla.compiler.graph.quantise.parameters import Float32, WeightParameters
from vdla.compiler.graph.quantise.statistics import Float64, check_finite

GROUP = 32
"""Inputs of a group where nothing else is said."""
_LOW, _HIGH = -8, 7
_SHRINK = (1.0, 0.92, 0.85, 0.78, 0.7)
_FACTORS = 4  # factors of a group that are tried, from the one that covers its maximum down
_STRIP = 1 << 16  # weights at a time, which a cache holds
_MANTISSA = 19  # bits of a scale, so that its product with a factor is exact in float32


@dataclass(frozen=True, slots=True)
class GroupedWeight(WeightParameters):
    """`values` are q * m; `factors` [groups, outputs] or [outputs, groups] are m, in the order of
    the weight's dimensions, for `size` inputs each.
    """

    factors: npt.NDArray[np.int8] | None = None
    size: int = GROUP
    axis: int = 0

    @property
    def numbers(self) -> npt.NDArray[np.int8]:
        """The numbers of four bits, q."""
        assert self.factors is not None
        inputs = self.values.shape[self.axis]
        return self.values // np.repeat(self.factors, self.size, self.axis).take(range(inputs), self.axis)

    @property
    def block_scales(self) -> Float32:
        """The scale of each group and output, m * s, which is exact."""
        assert self.factors is not None
        return np.asarray(self.factors * np.expand_dims(self.scale, self.axis), np.float32)


def quantise_groups(where: str, weight: Array, axis: int, size: int, least: Float64) -> GroupedWeight:
    """A weight of two dimensions, with outputs along `axis`; scales have the least squared error of
    some, but not below `least`.

    Raises:
        QuantiseError: the weight contains NaN or infinity.
    """
    check_finite(where, weight)
    rows = np.ascontiguousarray(np.moveaxis(weight, axis, 0), np.float32)
    outputs, inputs = rows.shape
    groups = -(-inputs // size)
    parts = np.pad(rows, ((0, 0), (0, groups * size - inputs))).reshape(outputs, groups, size)
    top = np.abs(rows).max(axis=1, initial=0) / np.float32(_HIGH * MOST_FACTOR)
    scale, factors = np.ones(outputs, np.float32), np.ones((outputs, groups), np.int8)
    strip = max(1, _STRIP // max(1, groups * size))
    for at in (slice(begin, begin + strip) for begin in range(0, outputs, strip)):
        scale[at], factors[at] = _best(parts[at], top[at], least[at])
    numbers = np.clip(np.rint(parts / (scale[:, None] * factors)[..., None]), _LOW, _HIGH)
    values = (numbers * factors[..., None]).astype(np.int8).reshape(outputs, -1)[:, :inputs]
    raised = tuple(np.flatnonzero((top > 0) & (top < least)).tolist())
    return GroupedWeight(
        values=np.ascontiguousarray(np.moveaxis(values, 0, axis)),
        scale=scale,
        raised=raised,
        factors=np.ascontiguousarray(np.moveaxis(factors, 0, axis)),
        size=size,
        axis=1 - axis,
    )


def _best(parts: Float32, top: Float32, least: Float64) -> tuple[Float32, npt.NDArray[np.int8]]:
    """The scales of outputs, and the factors of their groups, with the least squared error."""
    best = np.full(len(parts), np.inf)
    scale, factors = np.ones(len(parts), np.float32), np.ones(parts.shape[:2], np.int8)
    for shrink in _SHRINK:
        tried = _short(np.where(top > 0, np.maximum(top * shrink, least), np.where(least > 0, least, 1)))
        chosen, error = _best_factors(parts / tried[:, None, None])
        error = error * tried.astype(np.float64) ** 2
        better = error < best
        best = np.where(better, error, best)
        scale, factors = np.where(better, tried, scale), np.where(better[:, None], chosen, factors)
    return scale, factors


def _best_factors(units: Float32) -> tuple[npt.NDArray[np.int8], Float64]:
    """The factor of each group [outputs, groups] with the least squared error of a few, and the
    errors of outputs.
    """
    most = np.ceil(np.abs(units).max(axis=2) / _HIGH)
    best, least = np.ones(most.shape, np.int8), np.full(most.shape, np.inf, np.float32)
    for less in range(_FACTORS):
        factor = np.clip(most - less, 1, MOST_FACTOR).astype(np.float32)
        rounded = np.clip(np.rint(units / factor[..., None]), _LOW, _HIGH) * factor[..., None]
        error = np.square(rounded - units).sum(axis=2)
        best = np.where(error < least, factor.astype(np.int8), best)
        least = np.minimum(error, least)
    return best, least.sum(axis=1, dtype=np.float64)


def _short(scale: npt.NDArray[np.floating]) -> Float32:
    """Scales rounded up to few bits."""
    mantissa, exponent = np.frexp(scale)
    whole = np.ceil(np.ldexp(mantissa, _MANTISSA))
    return np.asarray(np.ldexp(whole, exponent - _MANTISSA), np.float32)
