"""Threads of an operator's schedule: which loop over tiles is parallel, and in how many parts.

Both are a choice of schedules for several threads. For one thread the schedule decides itself, so
that its kernel runs on any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.operators.cpu.block_nest import nominal_extent
from vdla.compiler.operators.cpu.choices import PARALLEL, THREADS, Answer, Choices, ScheduleChoice
from vdla.compiler.schedule import Schedule

OUTER, MIDDLE, INNER = "outer", "middle", "inner"
"""Which loops over tiles are parallel: the fewest and longest iterations first."""
_ALL = 0


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """The loops that are parallel, by their name, and on how many threads: in as many equal parts.

    0 stands for all threads, which take small parts as they are free.
    """

    loops: str
    count: int

    def run(self, schedule: Schedule, *loops: str) -> None:
        """Run each of some loops in parallel."""
        for loop in loops if self.is_parallel else ():
            schedule.parallel(self.in_parts(schedule, loop)[0])

    @property
    def is_parallel(self) -> bool:
        """Whether there may be several threads."""
        return self.count != 1

    def in_parts(self, schedule: Schedule, loop: str) -> tuple[str, str]:
        """Split a loop into the parts; the loops over parts and in them.

        They are the same if all threads share it, or if no part has several iterations.
        """
        size = 1 if self.count == _ALL else -(-_extent(schedule, loop) // self.count)
        return schedule.split(loop, factor=size) if self.is_parallel and size > 1 else (loop, loop)


def thread_plan(choices: Choices, default: str = OUTER, *others: str, pays: bool = True) -> ThreadPlan:
    """A plan with the `default` loops or `others`; if threads do not pay, by default for one."""
    counts = range(choices.threads + 1)
    legal: list[tuple[Answer, ...]] = [(loops, count) for loops in (default, *others) for count in counts if count != 1]
    names, usual, alone = (PARALLEL, THREADS), (default, _ALL if pays else 1), (default, 1)
    choice = ScheduleChoice(names, usual, (*legal, alone))
    loops, count = choices.of_threads(choice)
    return ThreadPlan(str(loops), int(count))


def _extent(schedule: Schedule, loop: str) -> int:
    found = (stmt for stmt in ir.walk(schedule.fn.body) if isinstance(stmt, ir.For) and stmt.var == loop)
    return nominal_extent(next(found).extent)
