# SPDX-License-Identifier: Apache-2.0
"""When an extension's instruction starts and ends, given what happens around it.

An oracle of timing: the cycles of an instruction follow step by step from the formulas and operands
of its declaration, its start and end from those of the instructions that it waits for, by the rules
of docs/timing-contract.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, QUEUES, TokenQueue, Unit
from vdla.simulator.stats import RunStats
from vdla.support.arrays import Ints
from vdla.verification.generated_tests.steps import DeclaredInstruction

_FUNCTIONS = {"min": min, "max": max}


def issue_cycles(declared: DeclaredInstruction, fields: Mapping[str, int], steps: int) -> int:
    """Cycles from the start of an instruction until its last result is on its way."""
    extension = declared.extension
    interval, latency = (_number(text, fields) for text in (extension.interval, extension.latency))
    sources = sum(operand.space is Buffer.ACC for operand in declared.operands)
    into_datapath = sources + (extension.in_place is not None)
    back = 1 + latency if into_datapath else 1
    if declared.writes_inputs:
        back = latency + 5 if any(operand.space is Buffer.INP for operand in declared.operands) else 1
    step = max(interval, into_datapath + bool(declared.reducer), back)
    return step * steps + latency + contract.ISSUE_DELAY


def _number(text: int | str, fields: Mapping[str, int]) -> int:
    """The value of a formula, whose grammar the declaration has checked."""
    return int(eval(str(text), {"__builtins__": {}, **_FUNCTIONS}, dict(fields)))


class ExpectedTimes:
    """What the instructions of the compute unit wait for in a run."""

    def __init__(self, config: Config, columns: Ints, kinds: Sequence[int], stats: RunStats) -> None:
        self.config = config
        self.columns = columns
        self.kinds = kinds  # the code of each instruction's format
        self.stats = stats
        self.order = np.flatnonzero(columns[:, COL["unit"]] == Unit.COMPUTE).tolist()

    def of(self, index: int, cycles: Mapping[int, int]) -> tuple[int, int]:
        """The start and the end of an instruction of an extension; `cycles` has those in the issue
        stage of each such instruction.
        """
        at = self.order.index(index)
        starts = [int(self.stats.dispatches[index]) + contract.COMMAND_DELAY, *self._after_others(at, cycles)]
        starts += [self._pushed(index, queue) for queue in QUEUES if queue.consumer is Unit.COMPUTE]
        start = max(starts)
        ends = [start + cycles[index] + contract.compute_depth(self.config), self._ended(at - 1)]
        ends += [self._room(index, queue) for queue in QUEUES if queue.producer is Unit.COMPUTE]
        return start, max(ends)

    def _after_others(self, at: int, cycles: Mapping[int, int]) -> list[int]:
        """Cycles from which the unit may start: only an instruction of the same kind overlaps."""
        before = self.order[at - 1]
        if at and self.kinds[before] == self.kinds[self.order[at]]:
            return [int(self.stats.starts[before]) + cycles[before], self._ended(at - contract.COMPUTES_IN_FLIGHT)]
        return [self._ended(at - 1)]

    def _ended(self, at: int) -> int:
        """The cycle after the end of the unit's instruction number `at`; 0 if it has no such
        instruction.
        """
        return int(self.stats.ends[self.order[at]]) + 1 if at >= 0 else 0

    def _pushed(self, index: int, queue: TokenQueue) -> int:
        """The cycle in which the token that an instruction pops from a queue has arrived."""
        pops, pushes = self._uses(queue.consumer, queue.pop), self._uses(queue.producer, queue.push)
        return int(self.stats.ends[pushes[pops.index(index)]]) + 1 if index in pops else 0

    def _room(self, index: int, queue: TokenQueue) -> int:
        """The cycle in which a queue has room for the token that an instruction pushes to it."""
        pops, pushes = self._uses(queue.consumer, queue.pop), self._uses(queue.producer, queue.push)
        full = pushes.index(index) - self.config.token_depth if index in pushes else -1
        return int(self.stats.starts[pops[full]]) + 1 if full >= 0 else 0

    def _uses(self, unit: Unit, field: str) -> list[int]:
        """The instructions of a unit with a token bit set."""
        chosen = (self.columns[:, COL["unit"]] == unit) & (self.columns[:, COL[field]] > 0)
        result: list[int] = np.flatnonzero(chosen).tolist()
        return result
