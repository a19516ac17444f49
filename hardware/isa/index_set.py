"""Sets of indices as the bits of Python integers: bit i is set where i is in the set.

The sets that affine loops make are unions of shifted copies. Doubling builds them in a number of steps that grows with
the logarithm of the iterations, so that no loop count, however hostile, costs more than the buffer it indexes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Where = slice | Indices
"""Indices in order without repeats; a slice where they lie without gaps."""


def of_values(values: Indices) -> int:
    """The set of these values."""
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
    """The members, as a slice where they lie without gaps."""
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
    """One past the largest index; 0 for none."""
    if isinstance(place, slice):
        return int(place.stop)
    return int(place[-1]) + 1 if len(place) else 0


def repeat(bits: int, count: int, step: int) -> int:
    """The union of `count` copies, each `step` further than the one before."""
    return repeat_in_order(bits, 0, count, step)[0]


def repeat_in_order(written: int, exposed: int, count: int, step: int) -> tuple[int, int]:
    """The same for iterations that write one set and read another before writing it.

    The second result is what is read before any iteration has written it. Both sets move by `step`.
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
    """What is written, and what is read before it is written, by one thing and then another, `distance` further."""
    return first[0] | second[0] << distance, first[1] | (second[1] << distance & ~first[0])
