# SPDX-License-Identifier: Apache-2.0
"""The best of pairs (value, place) as the best of numbers: the value times 2^16 less the place.

The largest such key has the largest value, and the first place with it; for the smallest value,
places are added. Both parts of the pair are read from the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.arith import bounds
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name

PLACE_BITS = 16
_MOST = (1 << PLACE_BITS) - 1


class PairPart(Enum):
    """Which of the pair a result is."""

    VALUE = 0
    PLACE = 1


@dataclass(frozen=True)
class Keys:
    """The keys that a result is read from; `sign` is that of places in them."""

    sums: te.Tensor
    part: PairPart
    sign: int
    dtype: str

    def read(self, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The results from their keys."""
        places = (self.sign * keys) & _MOST
        values = places if self.part is PairPart.PLACE else (keys - self.sign * places) >> PLACE_BITS
        return np.asarray(values, self.dtype)


def keys_of(output: te.Tensor) -> Keys | None:
    """The keys of one of the results of `te.argmax` or `te.argmin`; None for another expression.

    Raises:
        MapError: a key does not fit 32 bits.
    """
    stage = output.stage
    if not isinstance(stage, Stage) or stage.reduction is None:
        return None
    if stage.reduction.reducer not in (te.reduction.ARGMAX, te.reduction.ARGMIN):
        return None
    sign = -1 if stage.reduction.reducer is te.reduction.ARGMAX else 1
    _require_fit(stage, sign)
    axes = stage.reduction.axes

    def key(*at: te.Value) -> te.Value:
        """The reduction of keys at an index of the result."""
        here = {axis_name(axis): index.expr for axis, index in zip(stage.axes, at, strict=True)}
        element, place = te.cast("int32", _at(stage.values[0], here)) << PLACE_BITS, _at(stage.values[1], here)
        return te.max(element - place, axis=axes) if sign < 0 else te.min(element + place, axis=axes)

    sums = te.compute(stage.shape, key, stage.name)
    return Keys(sums, PairPart(stage.names.index(output.name)), sign, output.dtype)


def _at(element: te.Value, places: dict[str, ir.Expr]) -> te.Value:
    return te.Value(ir.substitute(element.expr, places), element.dtype, element.tensors)


def _require_fit(stage: Stage, sign: int) -> None:
    """MapError unless all keys are numbers of 32 bits, and their places can be read from them."""
    assert stage.reduction is not None
    value, place = stage.values
    where, low, high = f"te.{stage.reduction.reducer.name}", *_limits(value.dtype)
    extents = dict(zip(stage.axes, stage.shape, strict=True)) | {a.name: a.extent for a in stage.reduction.axes}
    ranges = {axis_name(name): (0, int(extent) - 1) for name, extent in extents.items()}
    first, last = bounds(place.expr, ranges)
    if first < 0 or last > _MOST:
        raise MapError(f"positions of {where} must be in 0..{_MOST} for a key, got {first}..{last}")
    keys = [(number << PLACE_BITS) + sign * position for number in (low, high) for position in (first, last)]
    least, most = ir.limits("int32")
    if min(keys) < least or max(keys) > most:
        raise MapError(f"elements of {where} must fit a key of 32 bits with their positions, got {value.dtype}")


def _limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if not ir.is_integer(dtype):
        raise MapError(f"elements must be integers for a key, got {dtype}")
    low, high = ir.limits(dtype)
    return int(low), int(high)
