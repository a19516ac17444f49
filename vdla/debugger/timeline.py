# SPDX-License-Identifier: Apache-2.0
"""When everything happens in a run, also in one that hangs, and what each unit does in a cycle.

A moment is a cycle and a rank: how many instructions have started, less one. In the cycle in which
several instructions start there are as many moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, COUNTERS, QUEUES, SIDES, Unit, popped_queue
from vdla.hardware.program import Program
from vdla.simulator.stats.critical_path import critical_path
from vdla.simulator.stats.tokens import NONE, queue_ends, token_givers
from vdla.simulator.support.errors import name_of
from vdla.simulator.timing import attempt_program, time_program
from vdla.simulator.timing.layout import DONE, T_C, T_D, T_E, UNKNOWN
from vdla.support.arrays import Bools, Ints

Moment = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Reason:
    """Something that had to come before an instruction could start.

    It allows the start from cycle `ready` on, UNKNOWN where it never comes; `instruction` is the
    one whose token or start it is, None for the command from fetch.
    """

    text: str
    instruction: int | None
    ready: int


class Timeline:
    """The times of a run of a program on `config`."""

    def __init__(self, program: Program, config: Config) -> None:
        self.program, self.config = program, config
        status, timing = attempt_program(program, config)
        self.hangs = status != DONE
        self.dispatches, self.starts, self.ends = timing.dispatches, timing.starts, timing.ends
        self.works, self.waits = timing.times[:, T_C], timing.waits
        self.total = timing.total if not self.hangs else 1 + int(timing.times[:, T_D : T_E + 1].max(initial=UNKNOWN))
        self.order = _ordered(self.starts)
        self.starts_in_order = self.starts[self.order]
        self.ranks = np.full(len(program), UNKNOWN, np.int64)
        self.ranks[self.order] = np.arange(len(self.order))
        results = np.where(self.ends == UNKNOWN, self.works, self.ends)
        self.result_order = _ordered(results)
        self._results = results[self.result_order]
        self._units = program.columns[:, COL["unit"]]
        self._members = tuple(np.flatnonzero(self._units == unit) for unit in Unit)

    # --- moments

    def at(self, cycle: int) -> Moment:
        """The moment of a cycle after all starts in it."""
        return cycle, int(np.searchsorted(self.starts_in_order, cycle, "right")) - 1

    def at_rank(self, rank: int) -> Moment:
        """The moment in which the instruction of a rank starts; the start of the run before all."""
        return (int(self.starts_in_order[rank]), rank) if rank >= 0 else (0, -1)

    def results_before(self, cycle: int) -> int:
        """How many instructions of `result_order` have ended before a cycle."""
        return int(np.searchsorted(self._results, cycle, "left"))

    @cached_property
    def all_ranks(self) -> Ints:
        """The ranks of all instructions that start."""
        return np.arange(len(self.order))

    @cached_property
    def token_ranks(self) -> Ints:
        """The ranks of the instructions that take a token."""
        return np.flatnonzero((self.givers != NONE).any(axis=1)[self.order])

    @cached_property
    def givers(self) -> Ints:
        """Who gives the token that each instruction takes on each side, or NONE."""
        return token_givers(self.program.columns)

    @cached_property
    def path(self) -> Bools:
        """Whether each instruction is on the critical path; none is in a run that hangs."""
        result = np.zeros(len(self.program), np.bool_)
        if not self.hangs:
            result[critical_path(self.program, time_program(self.program, self.config)).instructions] = True
        return result

    # --- why an instruction starts when it does

    def reasons(self, index: int) -> list[Reason]:
        """What had to come before an instruction could start, the last first."""
        dispatch = int(self.dispatches[index])
        ready = UNKNOWN if dispatch == UNKNOWN else dispatch + contract.COMMAND_DELAY
        result = [Reason("the command from fetch", None, ready), *self._token_reasons(index)]
        before = self._before(index)
        if before is not None:
            result.append(self._order_reason(index, before, result))
        return sorted(result, key=lambda reason: (reason.ready != UNKNOWN, -reason.ready))

    def _token_reasons(self, index: int) -> Iterator[Reason]:
        for side, giver in zip(SIDES, self.givers[index].tolist(), strict=True):
            number = popped_queue(Unit(self._units[index]), side)
            if number < 0 or not self.program.columns[index, COL[QUEUES[number].pop]]:
                continue
            name = f"a token of {QUEUES[number].name}"
            if giver == NONE:
                yield Reason(f"{name}, which no instruction gives", None, UNKNOWN)
            else:
                yield Reason(f"{name} from {self.name(giver)}", giver, _after(int(self.ends[giver])))

    def _order_reason(self, index: int, before: int, others: list[Reason]) -> Reason:
        """The place of an instruction behind another of its unit, which may still run."""
        start = int(self.starts[index])
        open_start = start != UNKNOWN and all(reason.ready < start for reason in others)
        ready = start if open_start else _after(int(self.starts[before]))
        return Reason(f"its turn behind {self.name(before)}", before, ready)

    def _before(self, index: int) -> int | None:
        members = self._members[self._units[index]]
        place = int(np.searchsorted(members, index))
        return int(members[place - 1]) if place else None

    def waits_of(self, index: int) -> dict[str, int]:
        """The cycles that its unit spent on an instruction, by cause."""
        return {name: cycles for name, cycles in zip(COUNTERS, self.waits[index].tolist(), strict=True) if cycles}

    def name(self, index: int) -> str:
        """How messages name an instruction."""
        return name_of(self.program.columns, index)

    # --- the machine in a cycle

    def status(self, cycle: int) -> list[str]:
        """A line for fetch, for each unit and for the token queues."""
        lines = [f"fetch: {self._fetch(cycle)}", *(f"{unit.label}: {self._unit(unit, cycle)}" for unit in Unit)]
        return [*lines, "queues: " + ", ".join(f"{name} {count}" for name, count in self.tokens(cycle).items())]

    def tokens(self, cycle: int) -> dict[str, int]:
        """The tokens in each queue, by its name."""
        result = {}
        for queue in QUEUES:
            pushes, pops = queue_ends(self.program.columns, queue)
            given = _happened(self.ends[pushes]) & (self.ends[pushes] < cycle)
            gone = _happened(self.starts[pops]) & (self.starts[pops] <= cycle)
            result[queue.name] = int(given.sum()) - int(gone.sum())
        return result

    def _fetch(self, cycle: int) -> str:
        past = _happened(self.dispatches) & (self.dispatches <= cycle)
        count, size = int(past.sum()), len(self.program)
        text = f"{count} of {size} instructions dispatched"
        if count == size:
            return text
        following = int(self.dispatches[count])
        when = "never" if following == UNKNOWN else f"in cycle {following}"
        return f"{text}, {self.name(count)} {when}"

    def _unit(self, unit: Unit, cycle: int) -> str:
        members = self._members[unit]
        ended = int((_happened(self.ends[members]) & (self.ends[members] < cycle)).sum())
        if ended == len(members):
            return "all instructions ended" if ended else "no instructions"
        begun = int((_happened(self.starts[members]) & (self.starts[members] <= cycle)).sum())
        if begun == ended:
            return f"{self.name(int(members[ended]))} {self._pending(int(members[ended]), cycle)}"
        return ", ".join(f"{self.name(k)} {self._running(k, cycle)}" for k in members[ended:begun].tolist())

    def _running(self, index: int, cycle: int) -> str:
        end, work = int(self.ends[index]), int(self.works[index])
        if work != UNKNOWN and work < cycle:
            full = [name for name, count in self.tokens(cycle).items() if count >= self.config.token_depth]
            pushed = [q.name for q in QUEUES if q.name in full and self._pushes(index, q.push, q.producer)]
            if pushed:
                return f"waits for room in {' and in '.join(pushed)}"
        return "runs" if end == UNKNOWN else f"runs until cycle {end}"

    def _pushes(self, index: int, field: str, producer: Unit) -> bool:
        return bool(self._units[index] == producer and self.program.columns[index, COL[field]])

    def _pending(self, index: int, cycle: int) -> str:
        """What an instruction waits for that is the next one of its unit."""
        if self.dispatches[index] == UNKNOWN or self.dispatches[index] > cycle:
            return "is not dispatched"
        missing = [reason for reason in self._token_reasons(index) if reason.ready == UNKNOWN or reason.ready > cycle]
        if not missing:
            return f"starts in cycle {self.starts[index]}"
        return "waits for " + " and for ".join(f"{reason.text}{_when(reason.ready)}" for reason in missing)


def _ordered(times: Ints) -> Ints:
    """The instructions that have a time, by time and then by number."""
    known = np.flatnonzero(times != UNKNOWN)
    return known[np.argsort(times[known], kind="stable")].astype(np.int64)


def _happened(times: Ints) -> Bools:
    return np.asarray(times != UNKNOWN, np.bool_)


def _after(cycle: int) -> int:
    return UNKNOWN if cycle == UNKNOWN else cycle + 1


def _when(ready: int) -> str:
    return "" if ready == UNKNOWN else f", there in cycle {ready}"
