# SPDX-License-Identifier: Apache-2.0
"""The choices of a CPU schedule: its defaults and the legal alternatives.

A schedule passes its default to `Choices` at each decision. `Choices` returns the default,
`RecordedChoices` also records the alternatives, `GivenChoices` returns the value of a point.
Legality depends on the function and the target only, never on other choices.

The parallel tile loop and its number of parts are choices for several threads. For one thread the
schedule decides, so that its kernel runs on any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar, cast

from vdla.compiler import ir
from vdla.compiler.operators.checks import OperatorError
from vdla.compiler.operators.cpu.block_nest import nominal_extent
from vdla.compiler.operators.cpu.register_tile import RegisterTile
from vdla.compiler.schedule import Schedule

Answer = int | str | bool
_Answer = TypeVar("_Answer", int, str, bool)
PARALLEL, THREADS = "parallel", "threads"
"""The names of the choice of schedules for several threads."""
OUTER, MIDDLE, INNER = "outer", "middle", "inner"
"""Which loops over tiles are parallel: the fewest and longest iterations first."""
_ALL = 0
MOST_THREADS = 256
"""All threads of the pool."""
TILE = ("tile_depth", "tile_columns", "tile_vectors")
"""The names of a register tile: rows and columns of the image or matrix, and vectors."""


@dataclass(frozen=True, slots=True)
class ScheduleChoice:
    """A decision: `legal` are combinations of values of `names`, `default` is one of them.

    For a register tile, `extents` are the rows, columns and vectors to tile.
    """

    names: tuple[str, ...]
    default: tuple[Answer, ...]
    legal: tuple[tuple[Answer, ...], ...]
    extents: tuple[int, int, int] = (1, 1, 1)


class Choices:
    """The answers of a schedule's decisions: the defaults."""

    threads = 1
    """How many threads the schedule is for."""

    def answer(self, choice: ScheduleChoice) -> tuple[Answer, ...]:
        """The values of a choice."""
        return choice.default

    def refused(self, operator: str) -> None:
        """Called when the schedule with these choices is illegal for a function."""

    def value(self, name: str, default: _Answer, legal: Iterable[_Answer]) -> _Answer:
        """One value."""
        values: dict[Answer, None] = dict.fromkeys((*legal, default))
        choice = ScheduleChoice((name,), (default,), tuple((value,) for value in values))
        return cast("_Answer", self.answer(choice)[0])

    def of_threads(self, choice: ScheduleChoice) -> tuple[Answer, ...]:
        """The values of a choice that exists only for several threads."""
        return choice.default if self.threads == 1 else self.answer(choice)

    def tile(self, default: RegisterTile, legal: Iterable[RegisterTile], extents: tuple[int, int, int]) -> RegisterTile:
        """A register tile of `extents`: rows, columns, vectors."""
        tiles = tuple(dict.fromkeys(map(_tile_values, (*legal, default))))
        values = self.answer(ScheduleChoice(TILE, _tile_values(default), tiles, extents))
        depth, columns, vectors = cast("tuple[int, int, int]", values)
        return RegisterTile(depth * columns, vectors, depth)


def _tile_values(tile: RegisterTile) -> tuple[int, int, int]:
    return tile.depth, tile.rows // tile.depth, tile.vectors


class RecordedChoices(Choices):
    """The defaults, for some threads; `asked` are the choices in the order of the decisions."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self.asked: list[ScheduleChoice] = []

    def answer(self, choice: ScheduleChoice) -> tuple[Answer, ...]:
        """The values of a choice."""
        self.asked.append(choice)
        return choice.default

    def refused(self, operator: str) -> None:
        """Without a schedule of its operator, a function has no choices."""
        self.asked.clear()


class GivenChoices(Choices):
    """The values of a point, which may have further ones that no decision reads.

    A point without threads is one of schedules for one thread.
    """

    def __init__(self, point: Mapping[str, Answer]) -> None:
        self._point = point
        self.threads = MOST_THREADS if THREADS in point else 1

    def answer(self, choice: ScheduleChoice) -> tuple[Answer, ...]:
        """The values of a choice.

        Raises:
            OperatorError: the point lacks a name, or its values are not legal.
        """
        for name in choice.names:
            if name not in self._point:
                raise OperatorError(f"schedule: point must have {name}, got {_listed(list(self._point))}")
        values = tuple(self._point[name] for name in choice.names)
        if values not in choice.legal:
            names = ", ".join(choice.names)
            raise OperatorError(f"schedule: {names} must be one of {_listed(choice.legal)}, got {_shown(values)}")
        return values

    def refused(self, operator: str) -> None:
        """Raises an OperatorError: the function would run with another schedule."""
        values = ", ".join(f"{name}={value}" for name, value in self._point.items())
        raise OperatorError(f"schedule: point must be legal for {operator}, got {values}")


_MOST_SHOWN = 8


def _listed(values: Sequence[object]) -> str:
    shown = [_shown(value) for value in values[:_MOST_SHOWN]]
    return ", ".join(shown + ["..."] * (len(values) > _MOST_SHOWN)) or "none"


def _shown(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


# --- threads --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """The name of the parallel loops, and the number of threads, which is the number of equal
    parts.

    0 means all threads, with dynamic scheduling of small parts.
    """

    loops: str
    count: int

    def run(self, schedule: Schedule, *loops: str) -> None:
        """Run each of some loops in parallel."""
        for loop in loops if self.is_parallel else ():
            schedule.parallel(self.in_parts(schedule, loop)[0])

    @property
    def is_parallel(self) -> bool:
        """Whether the plan may run several threads."""
        return self.count != 1

    def in_parts(self, schedule: Schedule, loop: str) -> tuple[str, str]:
        """Split a loop into the parts; the loops over parts and in them.

        They are the same loop if all threads share it, or if each part has one iteration.
        """
        size = 1 if self.count == _ALL else -(-_extent(schedule, loop) // self.count)
        return schedule.split(loop, factor=size) if self.is_parallel and size > 1 else (loop, loop)


def thread_plan(choices: Choices, default: str = OUTER, *alternatives: str, pays: bool = True) -> ThreadPlan:
    """A plan with the `default` loops or `others`; if threads do not pay, by default for one."""
    counts = [0, *range(2, choices.threads + 1)]
    answers: list[tuple[Answer, ...]] = list(product((default, *alternatives), counts))
    names, usual, alone = (PARALLEL, THREADS), (default, _ALL if pays else 1), (default, 1)
    choice = ScheduleChoice(names, usual, (*answers, alone))
    loops, count = choices.of_threads(choice)
    return ThreadPlan(str(loops), int(count))


def _extent(schedule: Schedule, var: str) -> int:
    loops = (stmt for stmt in ir.walk(schedule.fn.body) if isinstance(stmt, ir.For) and stmt.var == var)
    return nominal_extent(next(loops).extent)
