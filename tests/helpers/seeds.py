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
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

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
    """In their order, few cases that together have all features, and a quarter of the others: that
    of a number, or all.
    """
    cases = list(every)
    few = _cover([set(features(case)) for case in cases])
    chosen: list[Case] = []
    others = 0
    for place, case in enumerate(cases):
        others += place not in few
        if ALL or place in few or (others + number) % _SAMPLE_SHARE == 0:
            chosen.append(case)
    return chosen


def _cover(features: Sequence[set[Hashable]]) -> set[int]:
    """The places of few cases that together have all features: the next is always the one with the
    most that none before has. Such counts only fall, so that one which still holds is the greatest.
    """
    counts = [(-len(given), place) for place, given in enumerate(features)]
    heapify(counts)
    seen: set[Hashable] = set()
    few: set[int] = set()
    while counts:
        count, place = heappop(counts)
        new = features[place] - seen
        if new and len(new) < -count:
            heappush(counts, (-len(new), place))
        elif new:
            seen |= new
            few.add(place)
    return few


def lengths(usual: bool, chosen: bool) -> list[pytest.MarkDecorator]:
    """The marks of a case that is a usual one, of the sample of the long tests, or both."""
    if usual:
        return [] if chosen else [pytest.mark.short]
    return [pytest.mark.long]


def turn(place: int, count: int, number: int = SAMPLE) -> bool:
    """Whether a test that takes turns with others runs for this commit; in a release all do."""
    return ALL or number % count == place


def sampled(items: Sequence[pytest.Item], number: int = SAMPLE) -> list[pytest.Item]:
    """Of each test function that is marked `sampled`, its first case, or few with each value of the
    parameters that vary beside each other, and a quarter of the others; all other tests. Functions
    begin their quarters at different cases, so that no commit has the longer ones of all.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {
        id(case)
        for name, group in groups.items()
        for case in sample(group, _features(group), number + crc32(name.encode()))
    }
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
