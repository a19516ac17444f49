# SPDX-License-Identifier: Apache-2.0
"""Random cases: some in every run of the tests, more with `--long`, all with VDLA_ALL_SEEDS=1.

What random cases find they find at first, or on the thousandth seed: a third of the further ones is
tried for each change, and all before a release. Of cases that are not random, as models of the
world, each commit tries another quarter, by its files, so that all runs of a commit try the same;
the head of pytest's report has the number that repeats it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest


def number_of_commit() -> int:
    """A number of the files of the last commit; 0 where there is none."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD^{tree}"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout[:8], 16)
    except (OSError, subprocess.CalledProcessError):
        return 0


ALL = os.environ.get("VDLA_ALL_SEEDS", "") not in ("", "0")
SAMPLE_VARIABLE = "VDLA_SAMPLE"
SAMPLE = int(os.environ.get(SAMPLE_VARIABLE, "") or number_of_commit())
"""Which quarter of the cases that are not random."""
_SHARE = 3
_SAMPLE_SHARE = 4
_MOST_VALUES = 3 / 4  # for each case, of a parameter that is one of several

Case = TypeVar("Case")


def seeds(every: Sequence[int], usual: int) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: the `usual` first ones, and of the others every
    third, or all, marked `long`.
    """
    further = every[usual :: 1 if ALL else _SHARE]
    return [*every[:usual], *(pytest.param(seed, marks=pytest.mark.long) for seed in further)]


def long_count(every: int, share: int = _SHARE) -> int:
    """So many random cases of a long test: a third of `every`, or another share, or all."""
    return every if ALL else -(-every // share)


def sample(every: Iterable[Case], features: Callable[[Case], Iterable[Hashable]], number: int = SAMPLE) -> list[Case]:
    """In their order, the cases with a feature that none before has, and a quarter of the others:
    that of a number, or all.
    """
    seen: set[Hashable] = set()
    chosen: list[Case] = []
    others = 0
    for case in every:
        new = set(features(case)) - seen
        seen |= new
        others += not new
        if new or ALL or (others + number) % _SAMPLE_SHARE == 0:
            chosen.append(case)
    return chosen


def lengths(usual: bool, chosen: bool) -> list[pytest.MarkDecorator]:
    """The marks of a case that is a usual one, of the sample of the long tests, or both."""
    if usual:
        return [] if chosen else [pytest.mark.short]
    return [pytest.mark.long]


def turn(place: int, count: int, number: int = SAMPLE) -> bool:
    """Whether a test that takes turns with others runs for this commit; in a release all do."""
    return ALL or number % count == place


def sampled(items: Sequence[pytest.Item], number: int = SAMPLE) -> list[pytest.Item]:
    """Of each test function that is marked `sampled`, its first case, a case for each value of the
    parameters that vary beside each other, and a quarter of the others; all other tests.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {id(case) for group in groups.values() for case in sample(group, _features(group), number)}
    return [item for item in items if not item.get_closest_marker("sampled") or id(item) in kept]


def _features(group: Sequence[pytest.Item]) -> Callable[[pytest.Item], set[Hashable]]:
    """Gives the values of a case, but of parameters that differ in nearly every case."""
    values = [_values(item) for item in group]
    most = _MOST_VALUES * len(group)
    names = [name for name in values[0] if len({case[name] for case in values}) <= most]
    return lambda item: {None, *((name, value) for name, value in _values(item).items() if name in names)}


def _values(item: pytest.Item) -> dict[str, Hashable]:
    """The parameters of a case: their values, or of arrays which one it is."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return {}
    return {name: value if _has_hash(value) else callspec.indices[name] for name, value in callspec.params.items()}


def _has_hash(value: object) -> bool:
    """Whether a value can be an element of a set, which a tuple of arrays cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
