# SPDX-License-Identifier: Apache-2.0
"""The state of a machine that did not end a program: each unit's instruction and what it waits for.

Units start and end their instructions in program order, so counts of started and ended instructions
identify the oldest one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, QUEUES, TokenQueue, Unit
from vdla.simulator.support.errors import name_of
from vdla.support.arrays import Ints


@dataclass(frozen=True, slots=True)
class MachineState:
    """Instructions dispatched; instructions started and ended, by unit; tokens, by queue.

    `executed`, where known, counts the instructions of each unit that have done their work; one
    that has not ended waits for room in a token queue.
    """

    dispatched: int
    started: tuple[int, ...]
    ended: tuple[int, ...]
    tokens: tuple[int, ...]
    executed: tuple[int, ...] | None = None

    def describe(self, config: Config, columns: Ints) -> str:
        """A line for fetch, each unit and the token queues; `columns` are the stream's."""
        lines = [f"fetch: {self.dispatched} of {len(columns)} instructions dispatched{self._blocked(config, columns)}"]
        lines += [f"{unit.label}: {self._unit(config, columns, unit)}" for unit in Unit]
        depths = (f"{queue.name} {tokens}/{config.token_depth}" for queue, tokens in self._queues())
        lines.append(f"queues: {', '.join(depths)}")
        return "\n".join(f"  {line}" for line in lines)

    def _queues(self) -> list[tuple[TokenQueue, int]]:
        return list(zip(QUEUES, self.tokens, strict=True))

    def _blocked(self, config: Config, columns: Ints) -> str:
        if self.dispatched >= len(columns):
            return ""
        unit = Unit(int(columns[self.dispatched, COL["unit"]]))
        queued = int((columns[: self.dispatched, COL["unit"]] == unit).sum()) - self.started[unit]
        if queued < config.command_depth:
            return ""
        return f", the command queue of {unit.label} is full at {name_of(columns, self.dispatched)}"

    def _unit(self, config: Config, columns: Ints, unit: Unit) -> str:
        instructions = np.flatnonzero(columns[:, COL["unit"]] == unit)
        if self.ended[unit] >= len(instructions):
            return f"all {len(instructions)} instructions ended"
        oldest = int(instructions[self.ended[unit]])
        return f"{name_of(columns, oldest)} {self._wait(config, columns, unit, oldest)}"

    def _wait(self, config: Config, columns: Ints, unit: Unit, index: int) -> str:
        """What the oldest instruction of a unit that has not ended does."""
        if index >= self.dispatched:
            return "is not dispatched"
        if self.started[unit] == self.ended[unit]:
            empty = [queue for queue, tokens in self._queues() if tokens == 0 and queue.consumer is unit]
            pops = [queue.name for queue in empty if columns[index, COL[queue.pop]]]
            return f"waits for a token of {' and of '.join(pops)}" if pops else "is about to start"
        if self.executed is not None and self.executed[unit] == self.ended[unit]:
            return "waits for memory"
        full = [queue for queue, tokens in self._queues() if tokens >= config.token_depth and queue.producer is unit]
        pushes = [queue.name for queue in full if columns[index, COL[queue.push]]]
        if not pushes:
            return "runs"
        return f"{'runs or ' if self.executed is None else ''}waits for room in {' and in '.join(pushes)}"
