# SPDX-License-Identifier: Apache-2.0
"""The space of a buffer against one time for each entry."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.list_schedule import NEVER, BufferSpace


def naive_starts(times: np.ndarray, entries: int, align: int, reserve: int) -> dict[int, int]:
    """The time from which each aligned place is free."""
    last = len(times) - reserve - entries
    return {start: int(times[start : start + entries].max()) for start in range(0, last + 1, align)}


@pytest.mark.parametrize("seed", range(20))
def test_a_place_is_free_when_all_its_entries_are_and_none_is_much_earlier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(4, 40))
    space, times = BufferSpace(depth), np.zeros(depth, np.int64)
    for _ in range(30):
        entries, align, reserve = int(rng.integers(1, depth + 1)), int(rng.choice([1, 2, 4])), int(rng.integers(0, 3))
        time, start = space.find(entries, align, reserve)
        free = {at: when for at, when in naive_starts(times, entries, align, reserve).items() if when < NEVER}
        if time == NEVER:
            assert not free or align > 1
            continue
        assert free[start] == time
        if align == 1:
            assert time == min(free.values())
        until = int(rng.integers(0, 100)) if rng.random() < 0.6 else NEVER
        space.set(start, entries, until)
        times[start : start + entries] = until


@pytest.mark.parametrize("seed", range(20))
def test_places_that_are_remembered_are_those_of_a_new_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth, remembered = int(rng.integers(8, 40)), 0
    space = BufferSpace(depth)
    questions = [
        (int(rng.integers(1, depth // 2)), int(rng.choice([1, 2, 4])), int(rng.integers(0, 4)), int(rng.integers(0, 4)))
        for _ in range(8)
    ]
    for step in range(60):
        remembered += len(space._known)
        for question in questions:
            assert space.find(*question) == space._best(*question)
        time, start = space.find(*questions[step % 8])
        if time < NEVER:
            space.set(start, questions[step % 8][0], int(rng.integers(0, 100)) if rng.random() < 0.7 else NEVER)
    assert remembered > 60


def test_what_does_not_fit_has_no_place() -> None:
    assert BufferSpace(8).find(9, 1) == (NEVER, 0)
    assert BufferSpace(8).find(7, 1, reserve=2) == (NEVER, 0)
    assert BufferSpace(8).find(6, 1, reserve=2) == (0, 0)
