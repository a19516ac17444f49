# SPDX-License-Identifier: Apache-2.0
"""Breakpoints: where a run stops, as written by a user, and the moments that this means."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.debugger.errors import DebugError
from vdla.debugger.places import Locations
from vdla.debugger.timeline import Moment, Timeline
from vdla.debugger.watched import accessing
from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.isa import COL, QUEUES, isa_of
from vdla.hardware.program import Program
from vdla.simulator.timing.layout import UNKNOWN
from vdla.support.arrays import Ints
from vdla.support.suggest import one_of

KINDS = ("cycle", "line", "token", "read", "write")
"""What a breakpoint may begin with; else it is a number, or words of the assembly."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where a run stops: a number from 1, the text that asked for it, its moments in order."""

    number: int
    text: str
    moments: tuple[Moment, ...]

    def stops_at(self, moment: Moment) -> bool:
        """Whether a moment is one of them."""
        at = bisect_left(self.moments, moment)
        return self.moments[at : at + 1] == (moment,)

    def __str__(self) -> str:
        places = "never reached" if not self.moments else f"{len(self.moments)} places"
        places = f"cycle {self.moments[0][0]}" if len(self.moments) == 1 else places
        return f"breakpoint {self.number}: {self.text} ({places})"


def moments_of(text: str, timeline: Timeline, lines: Sequence[int] = ()) -> tuple[Moment, ...]:
    """The moments that a text means; `lines` has the line of each instruction in its source file.

    DebugError for a text that means nothing in this program.
    """
    words = text.split()
    if not words:
        raise DebugError("debug: a breakpoint must be an instruction, a line, a cycle or a token, got nothing")
    head, tail = words[0], words[1:]
    if head == "cycle":
        return (timeline.at(_cycle(tail, timeline)),)
    return tuple(timeline.at_rank(rank) for rank in sorted(_ranks(head, tail, timeline, lines)))


def _cycle(words: Sequence[str], timeline: Timeline) -> int:
    text = " ".join(words)
    if not text.isdecimal() or int(text) > timeline.total:
        raise DebugError(f"debug: a cycle must be an integer from 0 to {timeline.total}, got {text or 'nothing'}")
    return int(text)


def _ranks(head: str, tail: Sequence[str], timeline: Timeline, lines: Sequence[int]) -> Iterator[int]:
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
            chosen = [_of_file_line(head[1:], lines)]
        case _:
            chosen = _of_words([head, *tail], program)
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


def _of_words(words: Sequence[str], program: Program) -> list[int]:
    """The instructions of a mnemonic whose assembly has all other words."""
    isa = isa_of(program.config)
    mnemonics = [encoding.name.lower() for encoding in isa.formats.values()]
    encoding = isa.format_named(words[0])
    if encoding is None:
        others = f", {', '.join(KINDS)}, a number or :LINE"
        raise DebugError(f"debug: a breakpoint must begin with {one_of(words[0], mnemonics, others)}")
    codes = isa.codes_of_columns(program.columns)
    chosen = np.flatnonzero(codes == encoding.code).tolist()
    return [k for k in chosen if not words[1:] or set(words[1:]) <= set(row_text(program, k).split()[1:])]
