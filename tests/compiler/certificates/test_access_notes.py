# SPDX-License-Identifier: Apache-2.0
"""Who accessed elements between barriers, against lists of accesses."""

from __future__ import annotations

import random

import numpy as np
import pytest

from vdla.compiler.certificates.access_notes import AccessNotes, RaceError

_WARP = 2


def races(accesses: list[tuple[str, int, int, int, int]], kind: str, element: int, thread: int, passed: int,
          interval: int) -> bool:  # fmt: skip
    """Whether an access races with one of (kind, element, thread, warp barriers, interval)."""
    for other_kind, other_element, other, then, when in accesses:
        if other_element != element or other == thread or when != interval:
            continue
        ordered = other // _WARP == thread // _WARP and then != passed
        if not ordered and (other_kind != kind or kind == "write"):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_races_are_those_of_all_pairs_of_accesses(seed: int) -> None:
    chance = random.Random(seed)
    notes, accesses, passed, interval = AccessNotes((3,), _WARP), [], 0, 0
    for _ in range(40):
        what = chance.choice(("read", "read", "write", "update", "barrier", "warp"))
        if what == "barrier":
            notes.forget()
            interval += 1
        elif what == "warp":
            notes.forget_within_warps()
            passed += 1
        else:
            element, thread = chance.randrange(3), chance.randrange(5)
            wanted = races(accesses, what, element, thread, passed, interval)
            try:
                getattr(notes, what)((np.array([element]),), np.array([thread]))
            except RaceError as error:
                assert wanted
                assert str(error) == str(element)
                return
            assert not wanted
            accesses.append((what, element, thread, passed, interval))


@pytest.mark.parametrize("kind", ["read", "update", "write"])
def test_threads_of_one_statement_meet(kind: str) -> None:
    """Two that write one element race at once; others race with a third one that writes it."""
    notes, places, threads = AccessNotes((4, 2)), (np.array([1, 1]), np.array([0, 0])), np.array([3, 5])
    if kind == "write":
        with pytest.raises(RaceError, match="1, 0"):
            notes.write(places, threads)
        return
    getattr(notes, kind)(places, threads)
    for thread in (3, 5, 6):
        with pytest.raises(RaceError, match="1, 0"):
            notes.write((np.array([1]), np.array([0])), np.array([thread]))
