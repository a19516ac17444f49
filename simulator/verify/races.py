# SPDX-License-Identifier: Apache-2.0
"""Races and reads of unwritten data, from the accesses and the order that tokens enforce.

Two accesses of different units to one entry (or beat), one of them a write, are a race unless the
clock of one covers the other. Units execute in order, so the last read and the last write of each
unit are all the history that an entry needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, BufferAccess, Unit, Where, index_set
from vdla.hardware.program import WRITABLE_ROLES, Program
from vdla.simulator.verify.accesses import ProgramAccesses
from vdla.simulator.verify.naming import executing_unit, instruction_name, schedule_lines
from vdla.simulator.verify.tokens import NEVER, TokenRun
from vdla.simulator.verify.verdict import Finding, Kind, Range
from vdla.support.arrays import Bools, Ints

MOST_BEATS = 1 << 22
"""The largest tensor, in beats, whose history has a row for every beat; others have rows for
accessed beats."""

_READERS = (Unit.LOAD, Unit.COMPUTE, Unit.STORE)
_WRITERS = {
    Buffer.INP: (Unit.LOAD,),  # and compute, where results of steps are inputs
    Buffer.WGT: (Unit.LOAD,),
    Buffer.SCL: (Unit.LOAD,),
    Buffer.ACC: (Unit.COMPUTE,),
    Buffer.OUT: (Unit.COMPUTE,),
}

Steps = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Race:
    """Two unordered accesses in program order, and the entries that both access."""

    first: int
    second: int
    first_writes: bool
    second_writes: bool
    place: Range


class _History:
    """The last read and write of each entry of a space by each unit, and its written entries."""

    def __init__(self, name: str, size: int, readers: tuple[Unit, ...], writers: tuple[Unit, ...]) -> None:
        self.name = name
        self.reads: dict[int, Steps] = {unit: np.full(size, NEVER, np.int32) for unit in readers}
        self.writes: dict[int, Steps] = {unit: np.full(size, NEVER, np.int32) for unit in writers}
        self.written = np.zeros(size, np.bool_)
        self.members: Ints | None = None  # the beats of the rows; None for all beats

    def rows(self, where: Where) -> Where:
        """The rows of entries."""
        if self.members is None:
            return where
        beats = np.arange(where.start, where.stop) if isinstance(where, slice) else where
        return np.searchsorted(self.members, beats)

    def span(self, where: Where, chosen: Bools) -> Range:
        """The range of the chosen entries."""
        places = np.flatnonzero(chosen)
        ends = int(places[0]), int(places[-1])
        first, last = (where.start + at if isinstance(where, slice) else int(where[at]) for at in ends)
        return Range(self.name, first, last)


class RaceCheck:
    """The check along a token run; call `findings` once, then `warnings`."""

    def __init__(self, program: Program, touched: ProgramAccesses, run: TokenRun) -> None:
        self.program = program
        self.touched = touched
        self.run = run
        self.units: list[int] = program.columns[:, COL["unit"]].tolist()
        self.histories = _histories(program, touched)
        self.races: list[_Race] = []
        self.unwritten: list[tuple[int, Range]] = []

    def findings(self) -> Iterator[Finding]:
        """Races, then reads of unwritten data unless a race makes that uncertain."""
        for index in self.run.order:
            self._visit(index)
        yield from (_race_finding(self.program, race) for race in self.races)
        racing = {(index, race.place.space) for race in self.races for index in (race.first, race.second)}
        for index, place in self.unwritten:
            if (index, place.space) not in racing:
                yield _unwritten(self.program, index, place)

    def warnings(self) -> Iterator[Finding]:
        """Outputs that are not written completely."""
        for number, tensor in enumerate(self.program.tensors):
            if tensor.role == "output":
                beats = tensor.nbytes // self.program.config.axi_bytes
                history = self.histories.get((number, None))
                done = int(history.written.sum()) if history else 0
                if done < beats:
                    yield incomplete(tensor.name, done, beats)

    def _visit(self, index: int) -> None:
        clock, unit = self.run.clocks[index], self.units[index]
        for tensor, access in self.touched.accesses[index]:
            history = self.histories.get((tensor, access.buffer))
            if history is None:
                continue
            rows = history.rows(access.where)
            self._check(index, unit, clock, history, access, rows)
            if access.writes:
                history.writes[unit][rows] = index
                history.written[rows] = True
            elif unit in history.reads:
                history.reads[unit][rows] = index

    def _check(
        self, index: int, unit: int, clock: tuple[int, ...], history: _History, access: BufferAccess, rows: Where
    ) -> None:
        for past, wrote in ((history.writes, True), (history.reads, False)):
            for other, steps in past.items() if wrote or access.writes else ():
                if other != unit:
                    self._compare(index, clock[other], history, access, steps[rows], wrote)
        if not access.writes and not history.written[rows].all():
            self.unwritten.append((index, history.span(access.where, ~history.written[rows])))

    def _compare(
        self, index: int, known: int, history: _History, access: BufferAccess, steps: Steps, wrote: bool
    ) -> None:
        if int(steps.max(initial=NEVER)) <= known:
            return
        other = int(steps[steps > known].min())
        place = history.span(access.where, steps == other)
        if other < index:
            self.races.append(_Race(other, index, wrote, access.writes, place))
        else:
            self.races.append(_Race(index, other, access.writes, wrote, place))


def _histories(program: Program, touched: ProgramAccesses) -> dict[tuple[int, Buffer | None], _History]:
    """The histories of all buffers but the micro-op buffer, and of writable tensors."""
    depths = program.config.depths
    histories: dict[tuple[int, Buffer | None], _History] = {}
    inputs = (Unit.COMPUTE,) if any(plug_in.writes_inputs for plug_in in program.config.extensions) else ()
    for buffer, units in _WRITERS.items():
        writers = (*units, *inputs) if buffer is Buffer.INP else units
        readers = {Buffer.OUT: (Unit.STORE,), Buffer.ACC: ()}.get(buffer, (Unit.COMPUTE,))
        histories[-1, buffer] = _History(buffer.name.lower(), depths[buffer], readers, writers)
    for number, places in _in_dram(program, touched).items():
        history = histories[number, None] = _dram_history(program.tensors[number].name, places)
        history.written[:] = program.tensors[number].role == "resident"  # as earlier runs left it
    return histories


def _in_dram(program: Program, touched: ProgramAccesses) -> dict[int, list[Where]]:
    """The accessed beats of each writable tensor."""
    writable = {number for number, tensor in enumerate(program.tensors) if tensor.role in WRITABLE_ROLES}
    places: dict[int, list[Where]] = {}
    for accesses in touched.accesses:
        for number, access in accesses:
            if access.buffer is None and number in writable:
                places.setdefault(number, []).append(access.where)
    return places


def _dram_history(name: str, places: list[Where]) -> _History:
    end = max(index_set.end(place) for place in places)
    if end <= MOST_BEATS:
        return _History(name, end, _READERS, (Unit.STORE,))
    beats = [np.arange(place.start, place.stop) if isinstance(place, slice) else place for place in places]
    members = np.unique(np.concatenate(beats))
    history = _History(name, len(members), _READERS, (Unit.STORE,))
    history.members = members
    return history


# --- texts ----------------------------------------------------------------------------------------

_HAZARDS = {(True, False): "read after write", (False, True): "write after read", (True, True): "write after write"}


def incomplete(output: str, done: int, beats: int) -> Finding:
    """The warning about an output with only `done` beats written."""
    text = f"output {output} must be written completely, got {done} of {beats} beats"
    return Finding(kind=Kind.UNINITIALISED, message=text)


def _race_finding(program: Program, race: _Race) -> Finding:
    first, second = (instruction_name(program, index) for index in (race.first, race.second))
    verbs = ["writes" if writes else "reads" for writes in (race.first_writes, race.second_writes)]
    hazard = _HAZARDS[race.first_writes, race.second_writes]
    return Finding(
        kind=Kind.RACE,
        message=f"{first} {verbs[0]} {race.place} and {second} {verbs[1]} it; no token orders them ({hazard})",
        instructions=(race.first, race.second),
        units=(executing_unit(program, race.first).label, executing_unit(program, race.second).label),
        ranges=(race.place,),
        schedule=schedule_lines(program, race.first, race.second),
    )


def _unwritten(program: Program, index: int, place: Range) -> Finding:
    return Finding(
        kind=Kind.UNINITIALISED,
        message=f"{instruction_name(program, index)}: {place} must be written before it is read, got nothing",
        instructions=(index,),
        units=(executing_unit(program, index).label,),
        ranges=(place,),
        schedule=schedule_lines(program, index),
    )
