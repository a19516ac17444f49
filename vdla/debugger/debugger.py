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
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from vdla.debugger.breakpoints import START, Breakpoint, Place, in_full, layer_ranks, places_of
from vdla.debugger.checkpoints import Checkpoints
from vdla.debugger.errors import DebugError
from vdla.debugger.places import Locations
from vdla.debugger.program_run import ProgramRun
from vdla.debugger.timeline import Moment, Reason, Timeline
from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.config import Config
from vdla.hardware.isa import COL
from vdla.hardware.program import Program
from vdla.simulator.timing import device_config
from vdla.simulator.timing.layout import UNKNOWN
from vdla.support.arrays import Array, Ints
from vdla.support.integers import is_int
from vdla.support.suggest import one_of


class StepKind(str, Enum):
    """What a step goes to."""

    INSTRUCTION = "instruction"
    UNIT = "unit"
    LINE = "line"
    TOKEN = "token"
    CYCLE = "cycle"
    LAYER = "layer"
    REGION = "region"


_OF_NETWORKS = (StepKind.LAYER, StepKind.REGION)


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a run stopped: the breakpoints that stopped it, none at its start and its end.

    `region` is the number of a network's region, from 1.
    """

    cycle: int
    instruction: int | None
    breakpoints: tuple[int, ...] = ()
    region: int = 1


class Debugger:
    """A run that stands in a cycle; `instruction` started last, None before the first start.

    The run of a network is one of several programs, its regions; the run stands in one of them,
    whose program, times and contents are those of the debugger.
    """

    def __init__(self, name: str, runs: Sequence[ProgramRun], config: Config | None = None) -> None:
        self.name, self.runs = name, tuple(runs)
        self.source_file_lines: Sequence[int] = ()
        """The line of each instruction in the text that the program comes from, where known."""
        self._config = config
        self._timelines: dict[int, Timeline] = {}
        self._numbers = 0
        self._breakpoints: dict[int, Breakpoint] = {}
        self._here: Place = START
        self._contents: tuple[int, Locations, Checkpoints] | None = None
        self._states_of(0)  # refuses inputs that do not fit

    def __repr__(self) -> str:
        return f"<Debugger of {self.name} in cycle {self.cycle} of {self.total_cycles}>"

    # --- where

    @property
    def is_network(self) -> bool:
        """Whether the run is that of a network."""
        return self.runs[0].region is not None

    @property
    def region(self) -> int:
        """The number of the region in which the run stands, from 1; of a program, 1."""
        return self._here[0] + 1

    @property
    def program(self) -> Program:
        """The program in which the run stands."""
        return self.runs[self._here[0]].program

    @property
    def timeline(self) -> Timeline:
        """The times of the program."""
        return self.timeline_of(self.region)

    def timeline_of(self, region: int) -> Timeline:
        """The times of the program of a region."""
        number = self._region_index(region)
        if number not in self._timelines:
            program = self.runs[number].program
            self._timelines[number] = Timeline(program, device_config(program, self._config))
        return self._timelines[number]

    @property
    def layer(self) -> str | None:
        """The layer of the instruction, where it has one."""
        run, here = self.runs[self._here[0]], self.instruction
        number = -1 if here is None else int(run.layer_of[here])
        return run.layers[number] if number >= 0 else None

    @property
    def cycle(self) -> int:
        """The cycle in which the run of the program stands, from 0 to `total_cycles`."""
        return self._here[1][0]

    @property
    def instruction(self) -> int | None:
        """The instruction that started last, None before the first start."""
        rank = self._here[1][1]
        return int(self.timeline.order[rank]) if rank >= 0 else None

    @property
    def total_cycles(self) -> int:
        """The cycles of the program's run, of a run that hangs those up to its last event."""
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
        locations, states = self._states_of(self._here[0])
        return locations.value(locations.parse(place), states.at(self.timeline.results_before(self.cycle)))

    def _states_of(self, number: int) -> tuple[Locations, Checkpoints]:
        """What can be read of a region, and its states; those of one region are kept."""
        if self._contents is None or self._contents[0] != number:
            run = self.runs[number]
            self._contents = None  # whose memory is needed
            order = self.timeline_of(number + 1).result_order
            self._contents = number, Locations(run.program), Checkpoints(run.program, run.inputs, order)
        return self._contents[1:]

    def _region_index(self, region: int) -> int:
        count = len(self.runs)
        if not is_int(region) or not 1 <= region <= count:
            raise DebugError(f"debug: a region must be a number from 1 to {count}, got {region!r}")
        return int(region) - 1

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

        These are of the region in which the run stands; `in 2 gemm` is of region 2, `in all gemm`
        of all. `region 2` is the start of a region, `layer conv1` the first instruction of a layer.
        """
        text = in_full(place, self)
        places = places_of(text, self)
        self._numbers += 1
        result = self._breakpoints[self._numbers] = Breakpoint(self._numbers, text, places)
        return result

    def delete(self, number: int) -> None:
        """Delete a breakpoint."""
        if number not in self._breakpoints:
            numbers = ", ".join(map(str, self._breakpoints)) or "none"
            raise DebugError(f"debug: a breakpoint must have one of the numbers {numbers}, got {number!r}")
        del self._breakpoints[number]

    def run(self) -> Stop:
        """Go on to the next breakpoint, else to the end."""
        places = [(bisect_right(one.places, self._here), one.places) for one in self.breakpoints]
        last = len(self.runs) - 1
        chosen = [places_[at] for at, places_ in places if at < len(places_)]
        return self._stop_at(min(chosen) if chosen else (last, self._end_of(last)))

    def reverse(self) -> Stop:
        """Go back to the previous breakpoint, else to the start."""
        places = [(bisect_left(one.places, self._here), one.places) for one in self.breakpoints]
        return self._stop_at(max((places_[at - 1] for at, places_ in places if at), default=START))

    def _end_of(self, number: int) -> Moment:
        timeline = self.timeline_of(number + 1)
        return timeline.at(timeline.total)

    def _stop_at(self, place: Place) -> Stop:
        self._here = place
        numbers = tuple(one.number for one in self.breakpoints if one.stops_at(place))
        return Stop(self.cycle, self.instruction, numbers, self.region)

    def _stop_here(self, moment: Moment) -> Stop:
        """Stop in this region."""
        return self._stop_at((self._here[0], moment))

    # --- steps

    def step(self, to: StepKind | str = StepKind.INSTRUCTION, count: int = 1) -> Stop:
        """Go on to a start of an instruction, `count` times: the next one, the next one of the same
        `unit`, of another `line` of the schedule, the next that takes a `token`; or by cycles.

        Of a network also to the start of the next `layer` or `region`. Where there is none in this
        region a step goes to its end, and from there to the start of the next one.
        """
        kind, number = self._kind(to), self._count(count)
        if kind is StepKind.CYCLE and self._here[1] != self._end_of(self._here[0]):
            return self.go_to_cycle(min(self.cycle + number, self.total_cycles))
        for _ in range(number if kind is not StepKind.CYCLE else 1):
            self._here = self._after(kind)
        return self._stop_at(self._here)

    def _after(self, kind: StepKind) -> Place:
        """The place to which a step goes."""
        region, moment = self._here
        end = self._end_of(region)
        if moment == end or kind is StepKind.REGION:
            return (region + 1, START[1]) if region + 1 < len(self.runs) else (region, end)
        ranks = self._steps(kind)
        at = int(np.searchsorted(ranks, moment[1], "right"))
        return region, self.timeline.at_rank(int(ranks[at])) if at < len(ranks) else end

    def back(self, to: StepKind | str = StepKind.INSTRUCTION, count: int = 1) -> Stop:
        """Go back likewise; from the middle of an instruction, to its start first."""
        kind, number = self._kind(to), self._count(count)
        if kind is StepKind.CYCLE and self._here[1] != START[1]:
            return self.go_to_cycle(max(self.cycle - number, 0))
        for _ in range(number if kind is not StepKind.CYCLE else 1):
            self._here = self._before(kind)
        return self._stop_at(self._here)

    def _before(self, kind: StepKind) -> Place:
        """The place to which a step backwards goes."""
        region, (cycle, rank) = self._here
        if (cycle, rank) == START[1]:
            number = max(region - 1, 0)
            return number, START[1] if region == 0 or kind is StepKind.REGION else self._end_of(number)
        if kind is StepKind.REGION:
            return region, START[1]
        ranks = self._steps(kind)
        inside = rank >= 0 and self.timeline.at_rank(rank)[0] < cycle
        at = int(np.searchsorted(ranks, rank, "right" if inside else "left"))
        return region, self.timeline.at_rank(int(ranks[at - 1])) if at else START[1]

    def go_to_cycle(self, cycle: int) -> Stop:
        """Go to a cycle."""
        if not is_int(cycle) or not 0 <= cycle <= self.total_cycles:
            raise DebugError(f"debug: a cycle must be an integer from 0 to {self.total_cycles}, got {cycle!r}")
        return self._stop_here(self.timeline.at(int(cycle)))

    def go_to(self, instruction: int) -> Stop:
        """Go to the start of an instruction."""
        rank = int(self.timeline.ranks[self._known(instruction)])
        if rank == UNKNOWN:
            raise DebugError(f"debug: instruction {instruction} must start in this run, got one that hangs before")
        return self._stop_here(self.timeline.at_rank(rank))

    def go_to_region(self, region: int) -> Stop:
        """Go to the start of a region of a network, by its number from 1."""
        return self._stop_at((self._region_index(region), START[1]))

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
        timeline, here = self.timeline, self.instruction
        if kind is StepKind.LAYER:
            return layer_ranks(self.runs[self._here[0]], timeline)
        if kind is StepKind.TOKEN:
            return timeline.token_ranks
        if kind is StepKind.INSTRUCTION or here is None:
            return timeline.all_ranks
        column = self.program.columns[:, COL["unit"]] if kind is StepKind.UNIT else self.program.source_of
        same = column[timeline.order] == column[here]
        return np.flatnonzero(same if kind is StepKind.UNIT else ~same)

    def _kind(self, to: StepKind | str) -> StepKind:
        kinds = [kind for kind in StepKind if self.is_network or kind not in _OF_NETWORKS]
        if to not in kinds:
            raise DebugError(f"debug: a step must be to {one_of(to, [kind.value for kind in kinds])}")
        return StepKind(to)
