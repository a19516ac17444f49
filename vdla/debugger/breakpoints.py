# SPDX-License-Identifier: Apache-2.0
"""Breakpoints: where a run stops, as written by a user, and the moments that this means."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vdla.debugger.errors import DebugError
from vdla.debugger.places import Locations
from vdla.debugger.program_run import ProgramRun
from vdla.debugger.timeline import Moment, Timeline
from vdla.debugger.watched import accessing
from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.isa import COL, QUEUES, isa_of
from vdla.hardware.program import Program
from vdla.simulator.timing.layout import UNKNOWN
from vdla.support.arrays import Ints
from vdla.support.suggest import one_of

Place = tuple[int, Moment]
"""A region of a network, counted from 0, and a moment of its run; of a program the region is 0."""
START: Place = (0, (0, -1))
KINDS = ("cycle", "line", "token", "read", "write")
"""What a breakpoint may begin with; else it is a number, or words of the assembly."""
OF_NETWORKS = ("in", "region", "layer")
"""What one of a network may begin with as well."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where a run stops: a number from 1, the text that asked for it, its places in order."""

    number: int
    text: str
    places: tuple[Place, ...]

    def stops_at(self, place: Place) -> bool:
        """Whether a place is one of them."""
        at = bisect_left(self.places, place)
        return self.places[at : at + 1] == (place,)

    def __str__(self) -> str:
        places = "never reached" if not self.places else f"{len(self.places)} places"
        places = f"cycle {self.places[0][1][0]}" if len(self.places) == 1 else places
        return f"breakpoint {self.number}: {self.text} ({places})"


class Debugged(Protocol):
    """What is debugged, as far as breakpoints need it."""

    runs: tuple[ProgramRun, ...]
    source_file_lines: Sequence[int]

    @property
    def is_network(self) -> bool:
        """Whether these are the programs of a network."""

    @property
    def region(self) -> int:
        """The number of the region in which the run stands, from 1."""

    def timeline_of(self, region: int) -> Timeline:
        """The times of a region."""


def in_full(text: str, run: Debugged) -> str:
    """The text of a breakpoint with the region that it means, in a network."""
    words = text.split()
    return text if not run.is_network or not words or words[0] in OF_NETWORKS else f"in {run.region} {text}"


def places_of(text: str, run: Debugged) -> tuple[Place, ...]:
    """The places that a text means; DebugError for a text that means nothing in the run."""
    words = text.split()
    if not words:
        rule = "an instruction, a line, a cycle or a token"
        raise DebugError(f"debug: a breakpoint must be {rule}, got nothing")
    if run.is_network and words[0] in OF_NETWORKS:
        return tuple(_of_network(words[0], words[1:], run))
    return tuple(_in_region(run.region, words, run))


def _in_region(region: int, words: Sequence[str], run: Debugged) -> Iterator[Place]:
    timeline = run.timeline_of(region)
    if words[0] == "cycle":
        yield region - 1, timeline.at(_cycle(words[1:], timeline))
        return
    for rank in sorted(_ranks(words[0], words[1:], timeline, run)):
        yield region - 1, timeline.at_rank(rank)


# --- of networks ----------------------------------------------------------------------------------


def _of_network(head: str, tail: Sequence[str], run: Debugged) -> Iterator[Place]:
    match head:
        case "region":
            yield region_number(" ".join(tail), run) - 1, START[1]
        case "layer":
            yield from _layer(" ".join(tail), run)
        case _:
            if len(tail) < 2:
                got = " ".join(tail) or "nothing"
                raise DebugError(f"debug: a breakpoint in must have a region and a place, got {got}")
            if tail[0] == "all":
                yield from _everywhere(tail[1:], run)
            else:
                yield from _in_region(region_number(tail[0], run), tail[1:], run)


def region_number(text: str, run: Debugged) -> int:
    """The number of a region, from 1; DebugError for anything else."""
    if not text.isdecimal() or not 1 <= int(text) <= len(run.runs):
        raise DebugError(f"debug: a region must be a number from 1 to {len(run.runs)}, got {text or 'nothing'}")
    return int(text)


def _layer(name: str, run: Debugged) -> Iterator[Place]:
    known = dict.fromkeys(layer for one in run.runs for layer in one.layers)
    if name not in known:
        raise DebugError(f"debug: a layer must be {one_of(name or 'nothing', known)}")
    for number, one in enumerate(run.runs):
        timeline = run.timeline_of(number + 1)
        for rank in layer_ranks(one, timeline).tolist():
            if one.layers[one.layer_of[timeline.order[rank]]] == name:
                yield number, timeline.at_rank(rank)


def layer_ranks(run: ProgramRun, timeline: Timeline) -> Ints:
    """The rank of the first instruction of every layer that has one, in order."""
    layers, first = np.unique(run.layer_of[timeline.order], return_index=True)
    return np.sort(first[layers >= 0])


def _everywhere(words: Sequence[str], run: Debugged) -> Iterator[Place]:
    """The places in all regions where the words mean something; DebugError where in none."""
    errors: list[DebugError] = []
    for number in range(1, len(run.runs) + 1):
        try:
            yield from list(_in_region(number, words, run))
        except DebugError as error:
            errors.append(error)
    if len(errors) == len(run.runs):
        raise errors[0]


# --- of a program ---------------------------------------------------------------------------------


def _cycle(words: Sequence[str], timeline: Timeline) -> int:
    text = " ".join(words)
    if not text.isdecimal() or int(text) > timeline.total:
        raise DebugError(f"debug: a cycle must be an integer from 0 to {timeline.total}, got {text or 'nothing'}")
    return int(text)


def _ranks(head: str, tail: Sequence[str], timeline: Timeline, run: Debugged) -> Iterator[int]:
    """The ranks of the instructions that are meant, of those that start."""
    program = timeline.program
    chosen: Sequence[int] | Ints
    match head:
        case "line":
            chosen = _of_line(" ".join(tail), program)
        case "token":
            chosen = _of_token(tail, timeline)
        case "read" | "write":
            chosen = accessing(Locations(program).parse(" ".join(tail)), program, writes=head == "write")
        case _ if head.isdecimal() and not tail:
            chosen = [instruction_number(head, program)]
        case _ if head.startswith(":"):
            chosen = [_of_file_line(head[1:], run.source_file_lines)]
        case _:
            chosen = _of_words([head, *tail], program, OF_NETWORKS if run.is_network else ())
    ranks = timeline.ranks[np.asarray(chosen, np.int64)]
    return iter(ranks[ranks != UNKNOWN].tolist())


def instruction_number(text: str, program: Program) -> int:
    """The number of an instruction; DebugError for anything else."""
    if not text.isdecimal() or int(text) >= len(program):
        raise DebugError(
            f"debug: an instruction must be a number from 0 to {len(program) - 1}, got {text or 'nothing'}"
        )
    return int(text)


def _of_file_line(text: str, lines: Sequence[int]) -> int:
    """The first instruction at or behind a line of the text that the program comes from."""
    if not lines:
        raise DebugError(f"debug: a breakpoint :{text} must be in assembly text (.s), got a program file")
    later = [index for index, line in enumerate(lines) if text.isdecimal() and line >= int(text)]
    if not later:
        raise DebugError(f"debug: a line must be from 1 to {lines[-1]}, that of the last instruction, got {text}")
    return later[0]


def _of_line(text: str, program: Program) -> Ints:
    """The instructions of a line of the schedule: of its number, or of all that have a text."""
    known = program.source_lines
    if text.isdecimal() and int(text) < len(known):
        numbers = [int(text)]
    else:
        numbers = [number for number, line in enumerate(known) if text and text in " ".join(line.split())]
    if not numbers:
        rule = f"a number below {len(known)} or a part of one" if known else "in a program with a schedule"
        raise DebugError(f"debug: a line must be {rule}, got {text or 'nothing'}")
    return np.flatnonzero(np.isin(program.source_of, numbers))


def _of_token(words: Sequence[str], timeline: Timeline) -> list[int]:
    """Who takes a token of a queue: all, or the one of a number from 0."""
    names = {queue.name: queue for queue in QUEUES}
    name = words[0].replace("->", "_to_") if words else "nothing"
    if name not in names:
        raise DebugError(f"debug: a token must be of {one_of(name, names)}")
    queue, columns = names[name], timeline.program.columns
    takers = np.flatnonzero((columns[:, COL["unit"]] == queue.consumer) & (columns[:, COL[queue.pop]] > 0)).tolist()
    if not words[1:]:
        return takers
    number = " ".join(words[1:])
    if not number.isdecimal() or int(number) >= len(takers):
        raise DebugError(f"debug: a token of {name} must have a number below {len(takers)}, got {number}")
    return [takers[int(number)]]


def _of_words(words: Sequence[str], program: Program, kinds: Sequence[str]) -> list[int]:
    """The instructions of a mnemonic whose assembly has all other words."""
    isa = isa_of(program.config)
    mnemonics = [encoding.name.lower() for encoding in isa.formats.values()]
    encoding = isa.format_named(words[0])
    if encoding is None:
        others = f", {', '.join((*KINDS, *kinds))}, a number or :LINE"
        raise DebugError(f"debug: a breakpoint must begin with {one_of(words[0], mnemonics, others)}")
    codes = isa.codes_of_columns(program.columns)
    chosen = np.flatnonzero(codes == encoding.code).tolist()
    return [k for k in chosen if not words[1:] or set(words[1:]) <= set(row_text(program, k).split()[1:])]
