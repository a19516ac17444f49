# SPDX-License-Identifier: Apache-2.0
"""Races between the threads of a kernel.

Two threads of a block race where they access one element, at least one writes it, and some path
from one access to the other has no barrier. Such accesses by threads of two blocks always race. A
barrier must be reached by all threads of a block together. Local buffers and temporaries of one
thread never race.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vdla.compiler import ir
from vdla.compiler.analysis.meeting import Meeting, MeetingSide
from vdla.compiler.analysis.thread_accesses import (
    ThreadAccess,
    ThreadLoop,
    ThreadProgram,
    barrier_violation,
)
from vdla.compiler.analysis.tree import ScheduleError
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES, BarrierScope, GridKernel


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that threads of a block may make at once.

    `loop` carries the race from an iteration to the next; None if both are in one iteration of the
    loops around both.
    """

    first: ThreadAccess
    second: ThreadAccess
    loop: ThreadLoop | None


@dataclass(slots=True)
class MeetingTable:
    """Which accesses meet; the answers are kept, as barriers do not change them."""

    known: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def ask(self, meeting: Meeting) -> bool:
        """Whether two different agents may access one element."""
        if meeting.key not in self.known:
            self.known[meeting.key] = meeting.possible()
        return self.known[meeting.key]


def check_threads(kernel: GridKernel, table: MeetingTable | None = None) -> None:
    """Refuse a kernel whose threads race, or may part at a barrier.

    Raises:
        ScheduleError: names the accesses, or the condition of the barrier.
    """
    program = ThreadProgram.of(kernel)
    table = table or MeetingTable()
    for barrier in program.barriers:
        if (violation := barrier_violation(barrier)) is not None:
            raise ScheduleError(f"{kernel.name}: all threads of a block must come to a barrier, got {violation}")
    for race in races(program, table):
        rule = "threads of a block must not access one element, to write it, without a barrier between"
        raise ScheduleError(f"{kernel.name}: {rule}, got {_pair_text(race.first, race.second, 'threads')}")
    blocks = tuple(axis for axis in BLOCK_AXES if kernel.extents[axis] != 1)
    for first, second in pairs(program):
        sides = _side(kernel, first, {}), _side(kernel, second, {})
        if kernel.buffers[first.buffer].scope == "global" and table.ask(Meeting(*sides, blocks, frozenset())):
            rule = "threads of different blocks must not access one element, to write it"
            raise ScheduleError(f"{kernel.name}: {rule}, got {_pair_text(first, second, 'blocks')}")


def races(program: ThreadProgram, table: MeetingTable) -> Iterator[Race]:
    """The races between threads of a block: those that no barrier prevents, then those between
    warps that only a barrier within a warp separates.
    """
    yield from _races(program, table, 1)
    if any(barrier.scope is BarrierScope.WARP for barrier in program.barriers):
        yield from _races(program.across_warps(), table, program.kernel.warp)


def _races(program: ThreadProgram, table: MeetingTable, group: int) -> Iterator[Race]:
    """The races between groups of threads: within iterations first, then those that loops carry,
    inner loops first."""
    both = list(pairs(program))
    for first, second in both:
        common = _common(first, second)
        if not _has_between(program, first, second) and _meet(program, table, first, second, common, None, group):
            yield Race(first, second, None)
    carried = [(loop, pair) for pair in both for loop in _common(*pair) if loop.loop.extent != 1]
    for loop, (first, second) in sorted(carried, key=lambda item: -item[0].at):
        for one, two in ((first, second), (second, first))[: 1 if first is second else 2]:
            if _carries(program, table, one, two, loop, group):
                yield Race(one, two, loop)


def pairs(program: ThreadProgram) -> Iterator[tuple[ThreadAccess, ThreadAccess]]:
    """The pairs of accesses of one buffer, one of them a write, in program order, by the second.

    Atomic updates by one operator do not race: they may meet.
    """
    for n, second in enumerate(program.accesses):
        for first in program.accesses[: n + 1]:
            may_meet = first.atomic and first.atomic == second.atomic
            if first.buffer == second.buffer and (first.is_write or second.is_write) and not may_meet:
                yield first, second


def _common(first: ThreadAccess, second: ThreadAccess) -> list[ThreadLoop]:
    """The loops around both, outermost first."""
    return [one for one, two in zip(first.loops, second.loops, strict=False) if one.at == two.at]


def _has_between(program: ThreadProgram, first: ThreadAccess, second: ThreadAccess) -> bool:
    """Whether a barrier lies between two accesses in one iteration of the loops around both."""
    met = {*first.conditions, *second.conditions}
    return any(first.at < barrier.at < second.at and met.issuperset(barrier.conditions) for barrier in program.barriers)


def _carries(program: ThreadProgram, table: MeetingTable, one: ThreadAccess, two: ThreadAccess,
             loop: ThreadLoop, group: int) -> bool:  # fmt: skip
    """Whether two accesses meet in different iterations of a loop, the second in a later one, with
    no barrier on the way."""
    inside = program.barriers_in(loop)
    for barrier in inside:
        behind = barrier.at > one.at and set(one.conditions).issuperset(barrier.conditions)
        if behind or (barrier.at < two.at and set(two.conditions).issuperset(barrier.conditions)):
            return False
    met = {*one.conditions} & {*two.conditions}
    stops = any(met.issuperset(barrier.conditions) for barrier in inside)
    common = _common(one, two)
    return _meet(program, table, one, two, common[: common.index(loop)], loop if stops else None, group)


def _meet(program: ThreadProgram, table: MeetingTable, one: ThreadAccess, two: ThreadAccess,
          equal: list[ThreadLoop], carried: ThreadLoop | None, group: int) -> bool:  # fmt: skip
    """Whether threads of two groups meet while the loops `equal` stand still.

    A loop with a barrier that the path leaves is in its last iteration, one that it enters in its
    first.
    """
    kernel, depth = program.kernel, len(equal) + (carried is not None)
    last = {s.loop.var: ir.Const(s.loop.size - 1) for s in one.loops[depth:] if program.barriers_in(s)}
    first = {s.loop.var: ir.Const(0) for s in two.loops[depth:] if program.barriers_in(s)}
    names = frozenset((*BLOCK_AXES, *kernel.scalars, *(step.loop.var for step in equal)))
    threads = tuple(axis for axis in THREAD_AXES if kernel.extents[axis] != 1)
    sides = _side(kernel, one, last), _side(kernel, two, first)
    return table.ask(Meeting(*sides, threads, names, carried.loop.var if carried else None, group))


def _side(kernel: GridKernel, access: ThreadAccess, values: Mapping[str, ir.Expr]) -> MeetingSide:
    """An access with the extents of its variables, some of them at fixed `values`."""
    loops = {step.loop.var: step.loop.extent for step in access.loops}
    indices = tuple(ir.substitute(index, values) for index in access.indices)
    conditions = tuple(ir.substitute(condition, values) for condition in access.conditions)
    return MeetingSide(indices, conditions, {**kernel.extents, **loops})


def _pair_text(first: ThreadAccess, second: ThreadAccess, agents: str) -> str:
    """Two accesses, for messages."""
    return f"{first} in several {agents}" if first is second else f"{first} and {second}"
