# SPDX-License-Identifier: Apache-2.0
"""Checks of the options and arrays of templates; the message of an option begins with the name of
its operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.compiler.ir import limits
from vdla.compiler.operators.vdla.operator import Array, TemplateError
from vdla.hardware.numerics import MULT_BITS
from vdla.support.integers import is_int, to_python

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]  # in ONNX's order: top, left, bottom, right
_MOST_FACTOR = (1 << MULT_BITS) - 1

# --- options


def check_extents(name: str, **extents: object) -> None:
    """Reject extents that are not positive integers."""
    for what, value in extents.items():
        if not is_int(value) or value < 1:
            raise TemplateError(f"{name}: {what} must be a positive integer, got {value!r}")


def check_flag(name: str, what: str, value: object) -> None:
    """Reject anything but True and False."""
    if not isinstance(value, bool):
        raise TemplateError(f"{name}: {what} must be True or False, got {value!r}")


def check_range(name: str, value: int, dtype: str) -> tuple[int, int]:
    """The limits of `dtype`; `value` must lie between them."""
    low, high = (int(v) for v in limits(dtype))
    if not is_int(value) or not low <= value <= high:
        raise TemplateError(f"{name} must be an integer in {low}..{high} ({dtype}), got {value!r}")
    return low, high


def pair(name: str, what: str, value: int | Pair, low: int) -> Pair:
    """One value for both directions, or one for each."""
    both = _integers(value, 2)
    if len(both) != 2 or not all(is_int(v) and v >= low for v in both):
        raise TemplateError(f"{name}: {what} must be one or two integers >= {low}, got {value!r}")
    return both[0], both[1]


def four_pads(name: str, value: int | Pair | Pads) -> Pads:
    """The padding of the four sides, from one value, one for each direction, or ONNX's four."""
    pads = _integers(value, 4)
    if len(pads) not in (2, 4) or not all(is_int(v) and v >= 0 for v in pads):
        raise TemplateError(f"{name}: pads must be one, two or four integers >= 0, got {value!r}")
    return pads[0], pads[1], pads[-2], pads[-1]


def _integers(value: object, count: int) -> tuple[Any, ...]:
    """The elements of a tuple or list; a single value `count` times."""
    return tuple(map(to_python, value)) if isinstance(value, (tuple, list)) else (value,) * count


# --- arrays


def check_array(name: str, array: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """`array` as a NumPy array; TemplateError unless it has this shape and integers in the range of
    `dtype`.
    """
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


def check_output(outputs: Mapping[str, Array], rank: int) -> Array:
    """The array of the results among a run's outputs."""
    array = outputs.get("output") if isinstance(outputs, Mapping) else None
    if not isinstance(array, np.ndarray) or array.ndim != rank:
        got = type(outputs).__name__ if array is None else f"one of shape {list(np.shape(array))}"
        raise TemplateError(f"unpack: outputs must have an array 'output' of {rank} dimensions, got {got}")
    return array


def check_multipliers(factors: Array | float, channels: int) -> Array:
    """One real multiplier for each channel, from one number or that many."""
    given = np.asarray(factors)
    if given.dtype.kind not in "fiu":
        raise TemplateError(f"multiplier: must be real numbers, got {given.dtype}")
    if given.shape not in ((), (channels,)):
        raise TemplateError(f"multiplier: shape must be [{channels}] or one number, got {list(given.shape)}")
    good = np.isfinite(given) & (given >= 0) & (given <= _MOST_FACTOR)
    if not good.all():
        raise TemplateError(f"multiplier: must be from 0 to {_MOST_FACTOR}, got {given[~good].flat[0]}")
    return np.broadcast_to(given.astype(np.float64), (channels,))
