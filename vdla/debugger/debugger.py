# SPDX-License-Identifier: Apache-2.0
"""`debug`: a run of a program on the simulator that is stopped, stepped and read anywhere.

    run = vdla.debug(program, {"data": data, "weight": weight})
    run.break_at("gemm")
    run.run()
    run.value("acc[0]")

All times of a run are known before its first cycle, since they depend on no data. So a stop is a
search, backwards like forwards; contents are computed when they are read. In a cycle, instructions
that start in it have started, and those that ended before it have written their results.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType

import numpy as np

from vdla.debugger.breakpoints import Breakpoint, moments_of
from vdla.debugger.checkpoints import Checkpoints
from vdla.debugger.errors import DebugError
from vdla.debugger.places import Locations
from vdla.debugger.timeline import Moment, Reason, Timeline
from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.config import Config
from vdla.hardware.isa import COL
from vdla.hardware.program import Program
from vdla.simulator.support.errors import require_program
from vdla.simulator.timing import device_config
from vdla.simulator.timing.layout import UNKNOWN
from vdla.simulator.verify import VerifyError, verify
from vdla.simulator.verify.verdict import Kind
from vdla.support.arrays import Array, Ints
from vdla.support.integers import is_int
from vdla.support.suggest import one_of

_OF_ORDER = (Kind.DEADLOCK, Kind.RACE, Kind.UNBALANCED)
"""Findings of programs that can be debugged nevertheless: this is how to find out."""


class StepKind(str, Enum):
    """What a step goes to."""

    INSTRUCTION = "instruction"
    UNIT = "unit"
    LINE = "line"
    TOKEN = "token"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a run stopped: the breakpoints that stopped it, none at its start and its end."""

    cycle: int
    instruction: int | None
    breakpoints: tuple[int, ...] = ()


class Debugger:
    """A run that stands in a cycle; `instruction` started last, None before the first start."""

    def __init__(self, program: Program, inputs: Mapping[str, Array], config: Config | None = None) -> None:
        require_program("debug", program, config)
        self.program = program
        self.timeline = Timeline(program, device_config(program, config))
        self.source_file_lines: Sequence[int] = ()
        """The line of each instruction in the text that the program comes from, where known."""
        self._inputs = dict(inputs)
        self._locations = Locations(program)
        self._numbers = 0
        self._breakpoints: dict[int, Breakpoint] = {}
        self._moment: Moment = (0, -1)
        self._states = Checkpoints(program, self._inputs, self.timeline.result_order)

    def __repr__(self) -> str:
        return f"<Debugger of {self.program.name} in cycle {self.cycle} of {self.total_cycles}>"

    # --- where

    @property
    def cycle(self) -> int:
        """The cycle in which the run stands, from 0 to `total_cycles`."""
        return self._moment[0]

    @property
    def instruction(self) -> int | None:
        """The instruction that started last, None before the first start."""
        rank = self._moment[1]
        return int(self.timeline.order[rank]) if rank >= 0 else None

    @property
    def total_cycles(self) -> int:
        """The cycles of the run, of a run that hangs those up to its last event."""
        return self.timeline.total

    @property
    def hangs(self) -> bool:
        """Whether the run never ends."""
        return self.timeline.hangs

    def assembly(self, instruction: int) -> str:
        """The assembly of an instruction."""
        return row_text(self.program, self._known(instruction))

    def status(self) -> str:
        """A line for fetch, for each unit with what it does or waits for, for the token queues."""
        return "\n".join(self.timeline.status(self.cycle))

    def reasons(self, instruction: int) -> list[Reason]:
        """What had to come before an instruction could start, the last first."""
        return self.timeline.reasons(self._known(instruction))

    def waits(self, instruction: int) -> dict[str, int]:
        """The cycles that its unit spent on an instruction, by cause."""
        return self.timeline.waits_of(self._known(instruction))

    def value(self, place: str) -> Array:
        """The contents of `acc[3]`, `inp[0:4]`, `out`, `raw[1]`, a tensor or a private state.

        Entries of inp are int8 [batch, block_in], of wgt int8 [block_out, block_in], of acc and raw
        int32 [batch, block_out], of out int8 [batch, block_out], of scl int64 [block_out, 3] (bias,
        multiplier, shift), of uop int64 [5]. A tensor is `dram.NAME`, or NAME if no buffer has it.
        """
        chosen = self._locations.parse(place)
        return self._locations.value(chosen, self._states.at(self.timeline.results_before(self.cycle)))

    def _known(self, instruction: int) -> int:
        count = len(self.program)
        if not is_int(instruction) or not 0 <= instruction < count:
            raise DebugError(f"debug: an instruction must be a number from 0 to {count - 1}, got {instruction!r}")
        return int(instruction)

    # --- breakpoints

    @property
    def breakpoints(self) -> tuple[Breakpoint, ...]:
        """All breakpoints by their numbers."""
        return tuple(self._breakpoints.values())

    def break_at(self, place: str) -> Breakpoint:
        """Stop at an instruction (`12`), at instructions by their assembly (`load wgt`), at a line
        of the schedule (`line 3`, `line TEXT`), at a cycle (`cycle 500`), where a token is taken
        (`token load->compute`, `token load->compute 3`), or where entries are read or written
        (`write acc[0:4]`, `read dram.data`).
        """
        moments = moments_of(place, self.timeline, self.source_file_lines)
        self._numbers += 1
        result = self._breakpoints[self._numbers] = Breakpoint(self._numbers, place, moments)
        return result

    def delete(self, number: int) -> None:
        """Delete a breakpoint."""
        if number not in self._breakpoints:
            numbers = ", ".join(map(str, self._breakpoints)) or "none"
            raise DebugError(f"debug: a breakpoint must have one of the numbers {numbers}, got {number!r}")
        del self._breakpoints[number]

    def run(self) -> Stop:
        """Go on to the next breakpoint, else to the end."""
        places = [(bisect_right(one.moments, self._moment), one.moments) for one in self.breakpoints]
        end = self.timeline.at(self.total_cycles)
        return self._stop_at(min((moments[at] for at, moments in places if at < len(moments)), default=end))

    def reverse(self) -> Stop:
        """Go back to the previous breakpoint, else to the start."""
        places = [(bisect_left(one.moments, self._moment), one.moments) for one in self.breakpoints]
        return self._stop_at(max((moments[at - 1] for at, moments in places if at), default=(0, -1)))

    def _stop_at(self, moment: Moment) -> Stop:
        self._moment = moment
        numbers = tuple(one.number for one in self.breakpoints if one.stops_at(moment))
        return Stop(self.cycle, self.instruction, numbers)

    # --- steps

    def step(self, to: StepKind | str = StepKind.INSTRUCTION, count: int = 1) -> Stop:
        """Go on to a start of an instruction, `count` times: the next one, the next one of the same
        `unit`, of another `line` of the schedule, the next that takes a `token`; or by cycles.
        """
        kind, number = _step(to), self._count(count)
        if kind is StepKind.CYCLE:
            return self.go_to_cycle(min(self.cycle + number, self.total_cycles))
        for _ in range(number):
            ranks = self._steps(kind)
            at = int(np.searchsorted(ranks, self._moment[1], "right"))
            if at == len(ranks):
                return self._stop_at(self.timeline.at(self.total_cycles))
            self._moment = self.timeline.at_rank(int(ranks[at]))
        return self._stop_at(self._moment)

    def back(self, to: StepKind | str = StepKind.INSTRUCTION, count: int = 1) -> Stop:
        """Go back likewise; from the middle of an instruction, to its start first."""
        kind, number = _step(to), self._count(count)
        if kind is StepKind.CYCLE:
            return self.go_to_cycle(max(self.cycle - number, 0))
        for _ in range(number):
            ranks, (cycle, rank) = self._steps(kind), self._moment
            inside = rank >= 0 and self.timeline.at_rank(rank)[0] < cycle
            at = int(np.searchsorted(ranks, rank, "right" if inside else "left"))
            if not at:
                return self._stop_at((0, -1))
            self._moment = self.timeline.at_rank(int(ranks[at - 1]))
        return self._stop_at(self._moment)

    def go_to_cycle(self, cycle: int) -> Stop:
        """Go to a cycle."""
        if not is_int(cycle) or not 0 <= cycle <= self.total_cycles:
            raise DebugError(f"debug: a cycle must be an integer from 0 to {self.total_cycles}, got {cycle!r}")
        return self._stop_at(self.timeline.at(int(cycle)))

    def go_to(self, instruction: int) -> Stop:
        """Go to the start of an instruction."""
        rank = int(self.timeline.ranks[self._known(instruction)])
        if rank == UNKNOWN:
            raise DebugError(f"debug: instruction {instruction} must start in this run, got one that hangs before")
        return self._stop_at(self.timeline.at_rank(rank))

    def finish(self) -> Stop:
        """Go to the cycle after the end of the instruction, where its results can be read."""
        instruction = self.instruction
        if instruction is None:
            return self.step()
        end = int(self.timeline.ends[instruction])
        return self.go_to_cycle(self.total_cycles if end == UNKNOWN else max(self.cycle, end + 1))

    def _count(self, count: int) -> int:
        if not is_int(count) or count < 1:
            raise DebugError(f"debug: a number of steps must be an integer from 1, got {count!r}")
        return int(count)

    def _steps(self, kind: StepKind) -> Ints:
        """The ranks that a step may go to from here."""
        order, here = self.timeline.order, self.instruction
        if kind is StepKind.TOKEN:
            return self._token_ranks
        if kind is StepKind.INSTRUCTION or here is None:
            return self._all_ranks
        column = self.program.columns[:, COL["unit"]] if kind is StepKind.UNIT else self.program.source_of
        same = column[order] == column[here]
        return np.flatnonzero(same if kind is StepKind.UNIT else ~same)

    @cached_property
    def _all_ranks(self) -> Ints:
        return np.arange(len(self.timeline.order))

    @cached_property
    def _token_ranks(self) -> Ints:
        return np.flatnonzero(self.timeline.takes_token[self.timeline.order])


def _step(to: StepKind | str) -> StepKind:
    try:
        return StepKind(to)
    except ValueError:
        raise DebugError(f"debug: a step must be to {one_of(to, [kind.value for kind in StepKind])}") from None


def debug(
    program: Program, inputs: Mapping[str, Array] = MappingProxyType({}), config: Config | None = None
) -> Debugger:
    """A debugger of a run of `program`, which stands at its first cycle.

    `inputs` and `config` as for `simulate`. Programs that hang or race can be debugged as well.

    Raises:
        VerifyError: a program that accesses memory out of bounds, or is invalid in another way.
        ProgramError: arrays that do not fit the program's inputs.
        SimulationError: a configuration that does not fit the program.
    """
    require_program("debug", program, config)
    verdict = verify(program)
    if any(finding.kind not in _OF_ORDER for finding in verdict.findings):
        raise VerifyError(verdict)
    return Debugger(program, inputs, config)
