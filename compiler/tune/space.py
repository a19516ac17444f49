# SPDX-License-Identifier: Apache-2.0
"""Search spaces: named knobs with values, and which combinations are legal.

A legal point has an index from 0 to `size - 1`, in the order of `points()`. Whole sets of points
are handled by these indices, and as columns: for each knob the array of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.support.errors import Error

Value = int | str | bool
Point = Mapping[str, Value]
"""A value for each knob of a space; it can be written as JSON."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Columns = Mapping[str, NDArray[Any]]
Rule = Callable[[Columns], Bools]

_MOST_AT_ONCE = 1 << 16
_MOST_ENUMERATED = 1 << 26
_MOST_CODES = 1 << 62
_MOST_SHOWN = 12
_MOST_IN_LINE = 20  # characters of a value; longer ones have lines of their own
_TRIES = 8


class TuneError(Error, ValueError):
    """A knob, a space, a point or a search that breaks a rule."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A choice: its name and values. Integers are ordered: their neighbours are one step away."""

    name: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise TuneError(f"knob {self.name}: values must have a legal one, got none")
        if len(set(self.values)) < len(self.values):
            raise TuneError(f"knob {self.name}: values must differ, got {_listed(self.values)}")

    @property
    def is_ordered(self) -> bool:
        """Whether a step to the next value is a small change."""
        return all(isinstance(value, int) and not isinstance(value, bool) for value in self.values)

    @property
    def column(self) -> NDArray[Any]:
        """The values as an array."""
        return np.array(self.values)

    def digit(self, where: str, value: object) -> int:
        """The position of a value."""
        for digit, known in enumerate(self.values):
            if known == value and isinstance(known, bool) == isinstance(value, bool):
                return digit
        raise TuneError(f"{where}: {self.name} must be one of {_listed(self.values)}, got {value!r}")

    def __str__(self) -> str:
        values = list(map(str, self.values))
        if max(map(len, values)) > _MOST_IN_LINE:
            return "\n    ".join([f"{self.name}:", *values])
        shown = values if len(values) <= _MOST_SHOWN else [*values[: _MOST_SHOWN - 2], "..", values[-1]]
        return f"{self.name}: {' '.join(shown)}" + f" ({len(values)} values)" * (shown is not values)


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values))


@dataclass(frozen=True, eq=False)
class Space:
    """All points of `knobs`, or those whose codes are in `legal`, which is sorted.

    The code of a combination is its number among all combinations of values, the last knob varying
    fastest.
    """

    name: str
    knobs: tuple[Knob, ...]
    legal: Ints | None = None

    def __post_init__(self) -> None:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) < len(names):
            raise TuneError(f"space {self.name}: knobs must have names of their own, got {', '.join(names)}")
        if self.combinations > _MOST_CODES:
            raise TuneError(f"space {self.name}: combinations must be at most 2**62, got {self.combinations:,}")
        if self.legal is not None and not len(self.legal):
            raise TuneError(f"space {self.name}: a combination of {', '.join(names)} must be legal, got none")

    @staticmethod
    def where(name: str, knobs: Sequence[Knob], rule: Rule) -> Space:
        """The combinations for which `rule` is true; it judges columns.

        Raises:
            TuneError: no combination is legal, or there are too many to enumerate.
        """
        whole = Space(name, tuple(knobs))
        if whole.combinations > _MOST_ENUMERATED:
            raise TuneError(
                f"space {name}: a rule must judge at most {_MOST_ENUMERATED:,} combinations, got {whole.combinations:,}"
            )
        result = []
        for start in range(0, whole.combinations, _MOST_AT_ONCE):
            codes = np.arange(start, min(start + _MOST_AT_ONCE, whole.combinations))
            result.append(codes[rule(whole.columns(codes))])
        return Space(name, whole.knobs, np.concatenate(result))

    @property
    def combinations(self) -> int:
        """Combinations of values, legal or not."""
        return prod(len(knob.values) for knob in self.knobs)

    @property
    def size(self) -> int:
        """Legal points."""
        return self.combinations if self.legal is None else len(self.legal)

    def __str__(self) -> str:
        head = f"space {self.name}: {self.size:,} legal of {self.combinations:,} combinations"
        return "\n  ".join([head, *map(str, self.knobs)])

    # --- many points

    @cached_property
    def _weights(self) -> Ints:
        """What a step of each knob adds to the code."""
        sizes = [len(knob.values) for knob in self.knobs]
        return np.array([prod(sizes[place + 1 :]) for place in range(len(sizes))], np.int64)

    @cached_property
    def _sizes(self) -> Ints:
        return np.array([len(knob.values) for knob in self.knobs], np.int64)

    def digits(self, indices: Ints) -> Ints:
        """[point, knob]: positions of the values of the points."""
        codes = np.asarray(indices, np.int64) if self.legal is None else self.legal[indices]
        return np.asarray(codes[:, None] // self._weights % self._sizes, np.int64)

    def indices(self, digits: Ints) -> Ints:
        """The indices of combinations given as [combination, knob]; -1 where one is not legal."""
        codes = self.codes(digits)
        if self.legal is None:
            return codes
        at = np.minimum(np.searchsorted(self.legal, codes), len(self.legal) - 1)
        return np.where(self.legal[at] == codes, at, -1)

    def codes(self, digits: Ints) -> Ints:
        """The codes of combinations given as [combination, knob]."""
        return np.asarray(digits @ self._weights, np.int64)

    def columns(self, indices: Ints) -> Columns:
        """The values of the points, a column for each knob."""
        digits = self.digits(indices)
        return {knob.name: knob.column[digits[:, place]] for place, knob in enumerate(self.knobs)}

    def sample_indices(self, rng: np.random.Generator, count: int) -> Ints:
        """Indices of `count` different points, or of all if there are fewer, in random order."""
        return np.asarray(rng.choice(self.size, min(count, self.size), replace=False), np.int64)

    def mutated(self, rng: np.random.Generator, indices: Ints) -> Ints:
        """For each point another one that differs in one knob, at random; any point where none was
        found in a few tries.
        """
        neighbours, pending = np.array(indices, np.int64), np.arange(len(indices))
        several = np.flatnonzero(self._sizes > 1)
        for _ in range(_TRIES if len(several) else 0):
            digits, knobs = self.digits(neighbours[pending]), rng.choice(several, len(pending))
            steps = 1 + (rng.random(len(pending)) * (self._sizes[knobs] - 1)).astype(np.int64)
            row = np.arange(len(pending))
            digits[row, knobs] = (digits[row, knobs] + steps) % self._sizes[knobs]
            changed = self.indices(digits)
            neighbours[pending] = np.where(changed >= 0, changed, neighbours[pending])
            pending = pending[changed < 0]
        neighbours[pending] = rng.integers(self.size, size=len(pending))
        return neighbours

    # --- one point

    def point(self, index: int) -> Point:
        """The point of an index."""
        digits = self.digits(np.array([index]))[0].tolist()
        return {knob.name: knob.values[digit] for knob, digit in zip(self.knobs, digits, strict=True)}

    def index(self, point: Point) -> int:
        """The index of a point.

        Raises:
            TuneError: it lacks a knob or has another one, a value is unknown, or it is not legal.
        """
        result = int(self.indices(self._digits(point))[0])
        if result < 0:
            raise TuneError(f"space {self.name}: point must be legal, got {dict(point)}")
        return result

    def is_legal(self, point: Point) -> bool:
        """Whether a point of these knobs is one of the space."""
        return bool(self.indices(self._digits(point))[0] >= 0)

    def _digits(self, point: Point) -> Ints:
        names = [knob.name for knob in self.knobs]
        if sorted(point) != sorted(names):
            raise TuneError(f"space {self.name}: point must have exactly {_listed(names)}, got {_listed(list(point))}")
        return np.array([[knob.digit(f"space {self.name}", point[knob.name]) for knob in self.knobs]], np.int64)

    def points(self) -> Iterator[Point]:
        """All legal points, in order."""
        return (self.point(index) for index in range(self.size))

    def sample(self, rng: np.random.Generator, count: int) -> list[Point]:
        """`count` different legal points, or all if there are fewer."""
        return [self.point(index) for index in self.sample_indices(rng, count).tolist()]
