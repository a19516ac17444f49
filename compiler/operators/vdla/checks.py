"""Checks of the arrays and numbers that operators take, and padding to whole blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.ir import limits
from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.hardware.numerics import MULT_BITS
from vdla.support.integers import is_int

Array = npt.NDArray[Any]
_MOST_FACTOR = (1 << MULT_BITS) - 1


def blocks(extent: int, block: int) -> int:
    """Blocks that hold `extent` elements."""
    return -(-extent // block)


def check_array(name: str, array: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """`array` as a NumPy array, which must have this shape and integers in the range of `dtype`."""
    try:
        array = np.asarray(array)
    except ValueError:
        raise TemplateError(f"{name}: rows must be of equal length, got a ragged list") from None
    if array.shape != shape:
        raise TemplateError(f"{name}: shape must be {list(shape)}, got {list(array.shape)}")
    if array.dtype.kind not in "iu":
        raise TemplateError(f"{name}: elements must be integers, got {array.dtype}")
    low, high = limits(dtype)
    if array.size and (array.min() < low or array.max() > high):
        raise TemplateError(f"{name}: elements must be in {low}..{high} ({dtype}), got {array.min()}..{array.max()}")
    return array


def pad_to(array: Array, shape: tuple[int, ...]) -> Array:
    """`array` with zeros added at the end of each dimension."""
    return np.pad(array, [(0, new - old) for old, new in zip(array.shape, shape, strict=True)])


def check_output(outputs: Mapping[str, Array], rank: int) -> Array:
    """The array of the results among a run's outputs."""
    array = outputs.get("output") if isinstance(outputs, Mapping) else None
    if not isinstance(array, np.ndarray) or array.ndim != rank:
        got = type(outputs).__name__ if array is None else f"one of shape {list(np.shape(array))}"
        raise TemplateError(f"unpack: outputs must have an array 'output' of {rank} dimensions, got {got}")
    return array


def check_factors(name: str, factors: Array | float, channels: int) -> Array:
    """One real factor for each channel, from one number or that many."""
    given = np.asarray(factors)
    if given.dtype.kind not in "fiu":
        raise TemplateError(f"{name}: must be real numbers, got {given.dtype}")
    if given.shape not in ((), (channels,)):
        raise TemplateError(f"{name}: shape must be [{channels}] or one number, got {list(given.shape)}")
    good = np.isfinite(given) & (given >= 0) & (given <= _MOST_FACTOR)
    if not good.all():
        raise TemplateError(f"{name}: must be from 0 to {_MOST_FACTOR}, got {given[~good].flat[0]}")
    return np.broadcast_to(given.astype(np.float64), (channels,))


def check_range(name: str, value: int, dtype: str) -> tuple[int, int]:
    """The limits of `dtype`; `value` must lie between them."""
    low, high = (int(v) for v in limits(dtype))
    if not is_int(value) or not low <= value <= high:
        raise TemplateError(f"{name} must be an integer in {low}..{high} ({dtype}), got {value!r}")
    return low, high
