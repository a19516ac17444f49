"""Numbers for the symbols in the shapes of a model: one for each, or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from vdla.runtime.executor.errors import ModelError
from vdla.support.integers import is_int

Extents = Mapping[str, int | Sequence[int]]
_MOST_PLANS = 16


def combinations(extents: Extents) -> tuple[dict[str, int], list[dict[str, int]]]:
    """The symbols with one number, and every combination of the numbers of the others.

    Raises:
        ModelError: numbers that are no integers from 0, a number twice, or too many combinations.
    """
    numbers = {name: _numbers(name, given) for name, given in extents.items()}
    fixed = {name: given[0] for name, given in numbers.items() if len(given) == 1}
    several = {name: given for name, given in numbers.items() if len(given) > 1}
    count = prod(map(len, several.values()))
    if count > _MOST_PLANS:
        raise ModelError(f"compile: extents must give at most {_MOST_PLANS} plans, got {count}")
    return fixed, [dict(zip(several, each, strict=True)) for each in product(*several.values())] if several else []


def _numbers(name: str, given: int | Sequence[int]) -> list[int]:
    numbers = list(given) if isinstance(given, list | tuple | range) else [given]
    valid = numbers and all(is_int(number) and number >= 0 for number in numbers)
    if not valid or len(set(numbers)) < len(numbers):
        raise ModelError(f"compile: extents of {name} must be different integers from 0, got {given!r}")
    return [int(number) for number in numbers]  # type: ignore[arg-type]
