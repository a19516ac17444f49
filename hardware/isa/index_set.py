# SPDX-License-Identifier: Apache-2.0
"""Sets of indices as bit sets in Python integers: bit i is set if i is in the set.

The indices of an affine loop are a union of shifted copies, built by doubling in logarithmically
many steps: even a hostile loop count costs no more than the buffer that it indexes.
"""

from __future__ import annotations

import numpy as np

from vdla.support.arrays import Ints

Indices = Ints
Where = slice | Indices
"""Sorted distinct indices; a slice if they are contiguous."""

_MOST_GAPS = 8  # indices for each value up to which a table of all of them takes less time than sorting


def numbered(values: Indices) -> tuple[Indices, Indices]:
    """The distinct values in order, and the position of each value among them: `np.unique` with its
    inverse, but without sorting where the values are close together.
    """
    if len(values) == 1:
        return values, np.zeros(1, np.int64)
    low = int(values.min()) if len(values) else 0
    span = int(values.max()) - low + 1 if len(values) else 0
    if span > _MOST_GAPS * len(values):
        distinct, position = np.unique(values, return_inverse=True)
        return distinct, position.reshape(-1)
    used = np.zeros(span, np.bool_)
    used[values - low] = True
    return np.flatnonzero(used) + low, (np.cumsum(used) - 1)[values - low]


def of_values(values: Indices) -> int:
    """The bit set of these values."""
    if not len(values):
        return 0
    mask = np.zeros(int(values.max()) + 1, np.bool_)
    mask[values] = True
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def indices(bits: int) -> Indices:
    """The members in order."""
    data = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little"))


def compact(members: Indices) -> Where:
    """Sorted members, as a slice if they are contiguous."""
    if not len(members):
        return slice(0, 0)
    first, last = int(members[0]), int(members[-1])
    return slice(first, last + 1) if last - first + 1 == len(members) else members


def shift(place: Where, distance: int) -> Where:
    """Every index plus `distance`."""
    if isinstance(place, slice):
        return slice(place.start + distance, place.stop + distance)
    return place + distance


def end(place: Where) -> int:
    """One past the largest index; 0 for an empty set."""
    if isinstance(place, slice):
        return int(place.stop)
    return int(place[-1]) + 1 if len(place) else 0


def repeat(bits: int, count: int, step: int) -> int:
    """The union of `count` copies, each shifted by `step` from the last."""
    return repeat_in_order(bits, 0, count, step)[0]


def repeat_in_order(written: int, exposed: int, count: int, step: int) -> tuple[int, int]:
    """What `count` iterations write, and what they read before any of them has written it.

    One iteration writes `written` and reads `exposed` before writing it; both shift by `step`.
    """
    if step == 0 or count == 1:
        return written, exposed
    total, done, size = (0, 0), 0, 1
    power = (written, exposed)
    while count:
        if count & 1:
            total = _after(total, power, done * step)
            done += size
        count >>= 1
        if count:
            power = _after(power, power, size * step)
            size *= 2
    return total


def _after(first: tuple[int, int], second: tuple[int, int], distance: int) -> tuple[int, int]:
    """The sets written and exposed by `first` and then `second`, shifted by `distance`."""
    return first[0] | second[0] << distance, first[1] | (second[1] << distance & ~first[0])
