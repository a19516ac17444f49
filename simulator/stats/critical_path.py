# SPDX-License-Identifier: Apache-2.0
"""The critical path of a run: the chain of events that decides its length.

Walked backwards from the last end. A start follows from what came last: a token, the command from
fetch, or the previous instruction of the unit; an end follows from the instruction's own work, or
from room in a token queue. The invariant: the steps follow each other without a gap, so that their
cycles sum to the total. `docs/timing-contract.md` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.isa import COL, QUEUES, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats.run_stats import RunStats
from vdla.simulator.stats.times import UNKNOWN
from vdla.simulator.stats.tokens import NONE, queue_ends, token_givers
from vdla.simulator.support.errors import SimulationError
from vdla.support.arrays import Ints


class PathCause(IntEnum):
    """What the cycles of a step of the path are spent on."""

    WORK = 0
    TOKEN = 1
    COMMAND = 2
    FETCH = 3
    ROOM = 4

    @property
    def label(self) -> str:
        """The name in text."""
        return _LABELS[self]


_LABELS = ("the instruction works", "a token passes", "a command passes", "fetch reads instructions",
           "a token queue is full")  # fmt: skip


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Arrays in the order of time: step i spends the cycles `begins[i]` to `begins[i + 1]` on
    `instructions[i]`, the last one to `total`.
    """

    total: int
    begins: Ints
    instructions: Ints
    causes: Ints

    def cycles(self) -> dict[PathCause, int]:
        """The cycles by cause, which sum to the total."""
        spent = np.diff(self.begins, append=self.total)
        sums = np.bincount(self.causes, spent, minlength=len(PathCause)).astype(np.int64)
        return {cause: int(sums[cause]) for cause in PathCause}


def critical_path(program: Program, stats: RunStats) -> CriticalPath:
    """The critical path of a run; SimulationError unless all times of instructions are known."""
    for times in (stats.dispatches, stats.starts, stats.ends):
        if len(times) != len(program) or (times == UNKNOWN).any():
            raise SimulationError(f"critical path of {program.name}: the device must record all times, got totals only")
    return _Walk(program.columns, stats).path()


Event = tuple[str, int]
"""What happens ("dispatch", "start" or "end") to which instruction."""


class _Walk:
    """The walk back from event to event."""

    def __init__(self, columns: Ints, stats: RunStats) -> None:
        self.times = {"dispatch": stats.dispatches.tolist(), "start": stats.starts.tolist(), "end": stats.ends.tolist()}
        self.total, self.depth = stats.total_cycles, stats.config.command_depth
        self.units: list[int] = columns[:, COL["unit"]].tolist()
        self.members = [np.flatnonzero(columns[:, COL["unit"]] == unit).tolist() for unit in Unit]
        self.places = _places(self.members, len(columns))
        self.givers: list[list[int]] = token_givers(columns).tolist()
        self.rooms = _rooms(columns, stats.config.token_depth)

    def path(self) -> CriticalPath:
        steps: list[tuple[int, int, int]] = []
        event: Event | None = None
        if self.units:
            event = ("end", int(np.argmax(self.times["end"])))
            steps.append((self._at(event), event[1], PathCause.WORK))
        while event is not None:
            cause, before = self._before(event)
            steps.append((0 if before is None else self._at(before), event[1], cause))
            event = before
        begins, instructions, causes = np.array(steps[::-1], np.int64).reshape(-1, 3).T
        return CriticalPath(self.total, begins, instructions, causes)

    def _at(self, event: Event) -> int:
        cycle: int = self.times[event[0]][event[1]]
        return cycle

    def _before(self, event: Event) -> tuple[PathCause, Event | None]:
        """The event that an event follows from, None for the start of the run."""
        what, k = event
        return {"dispatch": self._before_dispatch, "start": self._before_start, "end": self._before_end}[what](k)

    def _before_end(self, k: int) -> tuple[PathCause, Event | None]:
        end = self.times["end"][k]
        for taker in self.rooms.get(k, ()):
            if self.times["start"][taker] + 1 == end:
                return PathCause.ROOM, ("start", taker)
        return PathCause.WORK, ("start", k)

    def _before_start(self, k: int) -> tuple[PathCause, Event | None]:
        start, unit = self.times["start"][k], self.units[k]
        for giver in self.givers[k]:
            if giver != NONE and self.times["end"][giver] + 1 == start:
                return PathCause.TOKEN, ("end", giver)
        if self.times["dispatch"][k] + contract.COMMAND_DELAY == start:
            return PathCause.COMMAND, ("dispatch", k)
        earliest = self._earlier(k, _IN_FLIGHT[unit])
        if earliest is not None and self.times["end"][earliest] + 1 == start:
            return PathCause.WORK, ("end", earliest)
        previous = self._earlier(k, 1)
        return (PathCause.COMMAND, ("dispatch", k)) if previous is None else (PathCause.WORK, ("start", previous))

    def _before_dispatch(self, k: int) -> tuple[PathCause, Event | None]:
        waiting = self._earlier(k, self.depth)
        if waiting is not None and self.times["start"][waiting] + 1 == self.times["dispatch"][k]:
            return PathCause.ROOM, ("start", waiting)
        return PathCause.FETCH, ("dispatch", k - 1) if k else None

    def _earlier(self, k: int, count: int) -> int | None:
        """The instruction of the same unit that is `count` before k."""
        place = self.places[k] - count
        return None if place < 0 else self.members[self.units[k]][place]


_IN_FLIGHT = (contract.LOADS_IN_FLIGHT, contract.COMPUTES_IN_FLIGHT, contract.STORES_IN_FLIGHT)
"""The instructions of a unit that have started and not ended, at most."""


def _places(members: list[list[int]], count: int) -> list[int]:
    """The place of every instruction among those of its unit."""
    places = [0] * count
    for of_unit in members:
        for place, k in enumerate(of_unit):
            places[k] = place
    return places


def _rooms(columns: Ints, depth: int) -> dict[int, list[int]]:
    """giver: the takers whose tokens must have left the queues before it can push."""
    rooms: dict[int, list[int]] = {}
    for queue in QUEUES:
        pushes, pops = queue_ends(columns, queue)
        for giver, taker in zip(pushes[depth:].tolist(), pops.tolist(), strict=False):
            rooms.setdefault(giver, []).append(taker)
    return rooms
