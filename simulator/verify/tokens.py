# SPDX-License-Identifier: Apache-2.0
"""The untimed token run of a program on the smallest machine, which proves that it ends on every
machine.

The smallest machine has queues of MIN_COMMAND_DEPTH commands and MIN_TOKEN_DEPTH tokens, and units
that end each instruction before they start the next. Larger queues and overlap only remove
conditions (docs/verifier.md). The vector clocks hold the order that tokens alone enforce, which is
the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.hardware.config import MIN_COMMAND_DEPTH, MIN_TOKEN_DEPTH
from vdla.hardware.isa import COL, QUEUES, Unit
from vdla.support.arrays import Bools, Ints

Clock = tuple[int, ...]

NEVER = -1
UNITS = len(Unit)
ORIGIN: Clock = (NEVER,) * UNITS


@dataclass(frozen=True, slots=True)
class Wait:
    """A blocked unit: its instruction waits for a token, or for room to push one."""

    unit: Unit
    instruction: int
    queue: int
    for_room: bool
    other: Unit


@dataclass(frozen=True, slots=True)
class TokenRun:
    """`order`: the instructions in an order in which they can run. `clocks[k][unit]`: the last
    instruction of `unit` that has certainly ended when k starts. `waits` says why the run stopped,
    `tokens` how many remain in each queue and `last_push` which instruction pushed to it last.
    """

    order: list[int]
    clocks: list[Clock]
    ended: int
    dispatched: int
    waits: tuple[Wait, ...]
    tokens: tuple[int, ...]
    last_push: tuple[int, ...]

    def complete(self, instructions: int) -> bool:
        """Whether all instructions ended."""
        return self.ended == instructions


def token_run(columns: Ints) -> TokenRun:
    """Run until nothing moves; linear in the number of instructions."""
    run = _Run(columns)
    while run.step():
        pass
    return run.result()


class _Run:
    def __init__(self, columns: Ints) -> None:
        self.units: list[int] = columns[:, COL["unit"]].tolist()
        self.pops = _queues(columns, [(queue.consumer, queue.pop) for queue in QUEUES])
        self.pushes = _queues(columns, [(queue.producer, queue.push) for queue in QUEUES])
        self.dispatched = 0
        self.ended = 0
        self.commands: list[list[int]] = [[] for _ in Unit]
        self.heads = [0] * UNITS  # commands that left each queue
        self.running = [NEVER] * UNITS
        self.clock = [ORIGIN] * UNITS
        self.clocks: list[Clock] = [ORIGIN] * len(columns)
        self.order: list[int] = []
        self.queues: list[list[Clock]] = [[] for _ in QUEUES]  # the clocks of all tokens pushed so far
        self.popped = [0] * len(QUEUES)
        self.last_push = [NEVER] * len(QUEUES)

    def step(self) -> bool:
        """Dispatches what fits, then advances each unit as far as possible; returns whether
        anything moved.
        """
        moved = self._dispatch()
        for unit in range(UNITS):
            while self._advance(unit):
                moved = True
        return moved

    def _dispatch(self) -> bool:
        start = self.dispatched
        while self.dispatched < len(self.units):
            unit = self.units[self.dispatched]
            if len(self.commands[unit]) - self.heads[unit] >= MIN_COMMAND_DEPTH:
                break
            self.commands[unit].append(self.dispatched)
            self.dispatched += 1
        return self.dispatched > start

    def _advance(self, unit: int) -> bool:
        return self._start(unit) if self.running[unit] == NEVER else self._end(unit)

    def _tokens(self, queue: int) -> int:
        return len(self.queues[queue]) - self.popped[queue]

    def _start(self, unit: int) -> bool:
        if self.heads[unit] == len(self.commands[unit]):
            return False
        index = self.commands[unit][self.heads[unit]]
        wanted = self.pops[unit][index]
        if any(self._tokens(queue) == 0 for queue in wanted):
            return False
        clock = self.clock[unit]
        for queue in wanted:
            token = self.queues[queue][self.popped[queue]]
            clock = tuple(map(max, clock, token))
            self.popped[queue] += 1
        self.clock[unit] = self.clocks[index] = clock
        self.heads[unit] += 1
        self.running[unit] = index
        self.order.append(index)
        return True

    def _end(self, unit: int) -> bool:
        index = self.running[unit]
        given = self.pushes[unit][index]
        if any(self._tokens(queue) >= MIN_TOKEN_DEPTH for queue in given):
            return False
        clock = (*self.clock[unit][:unit], index, *self.clock[unit][unit + 1 :])
        self.clock[unit] = clock
        for queue in given:
            self.queues[queue].append(clock)
            self.last_push[queue] = index
        self.running[unit] = NEVER
        self.ended += 1
        return True

    def result(self) -> TokenRun:
        waits = tuple(wait for unit in Unit for wait in self._waits(unit))
        tokens = tuple(self._tokens(queue) for queue in range(len(QUEUES)))
        return TokenRun(
            order=self.order,
            clocks=self.clocks,
            ended=self.ended,
            dispatched=self.dispatched,
            waits=waits,
            tokens=tokens,
            last_push=tuple(self.last_push),
        )

    def _waits(self, unit: Unit) -> list[Wait]:
        index = self.running[unit]
        if index != NEVER:
            full = [queue for queue in self.pushes[unit][index] if self._tokens(queue) >= MIN_TOKEN_DEPTH]
            return [Wait(unit, index, queue, True, QUEUES[queue].consumer) for queue in full]
        if self.heads[unit] == len(self.commands[unit]):
            return []
        index = self.commands[unit][self.heads[unit]]
        empty = [queue for queue in self.pops[unit][index] if self._tokens(queue) == 0]
        return [Wait(unit, index, queue, False, QUEUES[queue].producer) for queue in empty]


def _queues(columns: Ints, ends: list[tuple[Unit, str]]) -> list[list[tuple[int, ...]]]:
    """[unit][instruction]: its queues, given the unit and the token bit of each queue."""
    result = []
    for unit in Unit:
        links = [(queue, columns[:, COL[bit]] > 0) for queue, (end, bit) in enumerate(ends) if end is unit]
        result.append(_queues_of(len(columns), links))
    return result


def _queues_of(count: int, links: list[tuple[int, Bools]]) -> list[tuple[int, ...]]:
    codes = sum((bits.astype(np.int64) << place for place, (_, bits) in enumerate(links)), np.zeros(count, np.int64))
    choices = [tuple(q for place, (q, _) in enumerate(links) if code >> place & 1) for code in range(4)]
    return [choices[code] for code in codes.tolist()]
