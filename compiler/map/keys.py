# SPDX-License-Identifier: Apache-2.0
"""The best of pairs (value, place), by the best of numbers: values, or keys for their places.

A key is the value times 2^16 less the place: the largest one has the largest value, and the first
place with it. For the smallest value, places are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.arith import bounds
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.compiler.te.reduction import ARGMAX, ARGMIN

_VALUE_SHIFT = 16
_MOST = (1 << _VALUE_SHIFT) - 1


@dataclass(frozen=True)
class Keys:
    """What one of the results of a reduction of pairs is read from: the best values, or the best
    keys, in which places have a `sign`.
    """

    result: te.Tensor
    sums: te.Tensor
    sign: int | None = None

    def read(self, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The results from their keys."""
        return np.asarray(self._element(keys), self.result.dtype)

    def reading(self, keys: te.Tensor) -> te.Tensor:
        """The results as a computation over their keys."""
        plain: te.Tensor = te.compute(
            keys.shape, lambda *at: te.cast(self.result.dtype, self._element(keys[at])), "plain"
        )
        return plain

    def _element(self, key: Any) -> Any:  # noqa: ANN401  arrays or elements
        return key if self.sign is None else (key * self.sign) & _MOST


def keys_of(output: te.Tensor) -> Keys | None:
    """The keys of one of the results of `te.argmax` or `te.argmin`; None for another expression.

    Raises:
        MapError: a key does not fit 32 bits.
    """
    stage = output.stage
    reducer = stage.reduction.reducer if isinstance(stage, Stage) and stage.reduction is not None else None
    if not isinstance(stage, Stage) or reducer not in (ARGMAX, ARGMIN):
        return None
    sign = -1 if reducer is ARGMAX else 1
    if output.name == stage.names[0]:
        return Keys(output, _best(stage, sign, te.cast("int32", stage.values[0])))
    _require_fit(stage, sign)
    value, place = stage.values
    element = te.cast("int32", value) << _VALUE_SHIFT
    return Keys(output, _best(stage, sign, element - place if sign < 0 else element + place), sign)


def _best(stage: Stage, sign: int, term: te.Value) -> te.Tensor:
    """The largest or the smallest of terms."""
    assert stage.reduction is not None
    axes, reducer = stage.reduction.axes, te.max if sign < 0 else te.min

    def value(*at: te.Value) -> te.Value:
        places = {axis_name(axis): index.expr for axis, index in zip(stage.axes, at, strict=True)}
        return reducer(te.Value(ir.substitute(term.expr, places), "int32", term.tensors), axis=axes)

    best: te.Tensor = te.compute(stage.shape, value, stage.name)
    return best


def _require_fit(stage: Stage, sign: int) -> None:
    """MapError unless all keys are numbers of 32 bits, and their places can be read from them."""
    assert stage.reduction is not None
    value, place = stage.values
    where = f"te.{stage.reduction.reducer.name}"
    if not ir.is_integer(value.dtype):
        raise MapError(f"elements of {where} must be integers for a key, got {value.dtype}")
    extents = dict(zip(stage.axes, stage.shape, strict=True)) | {a.name: a.extent for a in stage.reduction.axes}
    ranges = {axis_name(name): (0, int(extent) - 1) for name, extent in extents.items()}
    first, last = bounds(place.expr, ranges)
    if first == last:
        raise MapError(f"positions of {where} must differ to be chosen from, got {first} alone")
    if first < 0 or last > _MOST:
        raise MapError(f"positions of {where} must be in 0..{_MOST} for a key, got {first}..{last}")
    keys = [(int(number) << _VALUE_SHIFT) + sign * at for number in ir.limits(value.dtype) for at in (first, last)]
    low, high = ir.limits("int32")
    if min(keys) < low or max(keys) > high:
        raise MapError(f"elements of {where} must fit a key of 32 bits with their positions, got {value.dtype}")
