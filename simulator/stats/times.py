# SPDX-License-Identifier: Apache-2.0
"""When each instruction of a run was dispatched, started and ended, and how two runs differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.simulator.stats.run_stats import RunStats
from vdla.support.arrays import Ints

UNKNOWN = -1
EVENTS = ("dispatch", "start", "end")


@dataclass(frozen=True, slots=True)
class Times:
    """Cycles by instruction; UNKNOWN for events that did not happen or were not observed."""

    dispatches: Ints
    starts: Ints
    ends: Ints

    def __iter__(self) -> Iterator[Ints]:
        """The arrays in the order of EVENTS."""
        return iter((self.dispatches, self.starts, self.ends))

    @property
    def known(self) -> bool:
        """Whether any time is known; true for an empty program."""
        return not len(self.starts) or any(bool((events != UNKNOWN).any()) for events in self)

    @staticmethod
    def of(stats: RunStats) -> Times:
        """The times of a run that ended."""
        return Times(stats.dispatches, stats.starts, stats.ends)

    @staticmethod
    def none(count: int) -> Times:
        """All UNKNOWN."""
        unknown = np.full(count, UNKNOWN, np.int64)
        return Times(unknown, unknown, unknown)


@dataclass(frozen=True, slots=True)
class EventDifference:
    """An event that two runs have in different cycles; UNKNOWN where it did not happen."""

    event: str
    instruction: int
    cycles: tuple[int, int]


def first_difference(one: Times, other: Times) -> EventDifference | None:
    """The earliest event that differs; None where all are equal."""
    result = []
    for order, (event, ours, theirs) in enumerate(zip(EVENTS, one, other, strict=True)):
        where = np.flatnonzero(ours != theirs)
        if not len(where):
            continue
        earliest = _earlier(ours[where], theirs[where])
        first = int(np.argmin(earliest))
        k = int(where[first])
        result.append((int(earliest[first]), order, EventDifference(event, k, (int(ours[k]), int(theirs[k])))))
    return min(result, key=lambda item: item[:2])[2] if result else None


def _earlier(ours: Ints, theirs: Ints) -> Ints:
    """The smaller of two cycles, elementwise; UNKNOWN counts as later."""
    earlier: Ints = np.where(ours == UNKNOWN, theirs, np.where(theirs == UNKNOWN, ours, np.minimum(ours, theirs)))
    return earlier


def latest_instructions(times: Times, instruction: int, cycle: int, count: int) -> list[int]:
    """The given instruction and the `count - 1` with the latest events up to a cycle."""
    latest = np.full(len(times.starts), UNKNOWN, np.int64)
    for events in times:
        latest = np.maximum(latest, np.where(events <= cycle, events, UNKNOWN))
    order = [int(k) for k in np.argsort(-latest, kind="stable") if latest[k] != UNKNOWN and k != instruction]
    return sorted([*order[: count - 1], instruction])
