# SPDX-License-Identifier: Apache-2.0
"""Two roundings of the same integers, compared for every integer of a range, by exact rationals.

A rounding is `clip(round(factor * n + shift) + zero, low, high)`, half to even. It is monotone, so
it is known by its *thresholds*: the least integers at which it reaches each result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LEAST, MOST = -128, 127
"""The bounds of results."""

_HALF = Fraction(1, 2)
_UNSURE = 2.0**-40  # of the magnitudes that a threshold is the difference of


@dataclass(frozen=True, slots=True)
class Rounding:
    """`clip(round(factor * n + shift) + zero, low, high)`; the factor is not negative."""

    factor: Fraction
    shift: Fraction
    zero: int
    low: int
    high: int

    def of(self, n: int) -> int:
        """The result of an integer."""
        return self.of_number(self.factor * n + self.shift)

    def of_number(self, x: Fraction) -> int:
        """The result of a number that is scaled already."""
        return min(max(round(x) + self.zero, self.low), self.high)


@dataclass(frozen=True, slots=True)
class RoundingDifference:
    """Of so many integers, those whose results differ, all by one unit; `near` is how far from the
    middle of two integers the exact values of these are at most.
    """

    count: int = 0
    differing: int = 0
    near: float = 0.0

    def __str__(self) -> str:
        if not self.differing:
            return f"all {self.count:,} sums are rounded alike"
        return f"{self.differing:,} of {self.count:,} sums differ by 1, within {self.near:.0e} of a half"

    def __add__(self, other: RoundingDifference) -> RoundingDifference:
        return RoundingDifference(
            self.count + other.count, self.differing + other.differing, max(self.near, other.near)
        )


def difference(exact: Rounding, other: Rounding, low: int, high: int) -> RoundingDifference | None:
    """How two roundings of the integers from `low` to `high` differ; None if by more than one unit
    anywhere.
    """
    first, second = (_thresholds(one, low, high) for one in (exact, other))
    if (second[1:] < first[:-1]).any() or (first[1:] < second[:-1]).any():
        return None
    differing = np.abs(first - second)
    near = 0.0
    for place in np.flatnonzero(differing):
        middle = LEAST + 1 + int(place) - exact.zero - _HALF
        ends = (min(first[place], second[place]), max(first[place], second[place]) - 1)
        near = max(near, *(float(abs(exact.factor * int(n) + exact.shift - middle)) for n in ends))
    return RoundingDifference(high - low + 1, int(differing.sum()), near)


def _thresholds(rounding: Rounding, low: int, high: int) -> Ints:
    """The least integers of a range whose result is at least -127, ..., 127; one more than the
    range has where none is.
    """
    levels = np.arange(LEAST + 1, MOST + 1)
    made = np.full(levels.shape, high + 1, np.int64)
    made[levels <= rounding.low] = low
    between = np.flatnonzero((levels > rounding.low) & (levels <= rounding.high))
    if not rounding.factor:
        made[between] = np.where(levels[between] <= rounding.of(0), low, high + 1)
        return made
    factor, shift = float(rounding.factor), float(rounding.shift)
    wanted = levels[between] - rounding.zero - 0.5
    numbers = (wanted - shift) / factor
    unsure = _UNSURE * (1 + (np.abs(wanted) + abs(shift)) / factor)
    least = np.ceil(numbers)
    for place in np.flatnonzero(np.abs(numbers - np.rint(numbers)) <= unsure):
        least[place] = _threshold(rounding, int(levels[between[place]]) - rounding.zero)
    made[between] = np.clip(least, low, high + 1).astype(np.int64)
    return made


def _threshold(rounding: Rounding, level: int) -> int:
    """The least integer that is rounded to a level or more: from the half below it on, which is
    rounded to the even one of its neighbours.
    """
    number = (level - _HALF - rounding.shift) / rounding.factor
    return ceil(number) if level % 2 == 0 else floor(number) + 1


def pair_difference(
    exact: Sequence[Fraction], rounding: Rounding, sums: npt.NDArray[Any], other: Rounding, pair: tuple[Ints, Ints]
) -> RoundingDifference | None:
    """How a rounding of `exact[0] * a + exact[1] * b + exact[2]` differs from one of `sums[a, b]`,
    for all integers of a pair.
    """
    a, b = (one.astype(np.float64) for one in pair)
    numbers = float(exact[0]) * a[:, None] + float(exact[1]) * b + float(exact[2])
    return values_difference(
        numbers,
        lambda place: exact[0] * int(pair[0][place[0]]) + exact[1] * int(pair[1][place[1]]) + exact[2],
        rounding,
        rounded(sums, other),
    )


def values_difference(
    numbers: npt.NDArray[np.float64],
    exactly: Callable[[tuple[int, ...]], Fraction],
    rounding: Rounding,
    results: Ints,
) -> RoundingDifference | None:
    """How roundings of numbers differ from results; `exactly` gives a number at a place."""
    wanted = np.clip(np.rint(numbers) + rounding.zero, rounding.low, rounding.high).astype(np.int64)
    far = np.abs(numbers - np.floor(numbers) - 0.5)
    for place in np.argwhere(far <= _UNSURE * (1 + np.abs(numbers))):
        wanted[tuple(place)] = rounding.of_number(exactly(tuple(int(i) for i in place)))
    differs = wanted != results
    if (np.abs(wanted - results) > 1).any():
        return None
    return RoundingDifference(wanted.size, int(differs.sum()), float(far[differs].max(initial=0.0)))


def rounded(sums: Ints, rounding: Rounding) -> Ints:
    """The results of integers, by a factor that is an integer over a power of two."""
    above, below = rounding.factor.numerator, rounding.factor.denominator
    wide = abs(above) >> 31 or below >> 61
    products = (sums.astype(object) if wide else sums) * above
    twice = 2 * (products % below)
    whole = products // below
    up = (twice > below) | ((twice == below) & (whole % 2 == 1))
    return np.asarray(np.clip((whole + up + rounding.zero).astype(np.int64), rounding.low, rounding.high))
