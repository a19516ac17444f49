"""The choices of a CPU schedule: what it decides itself, and what else is legal.

A schedule asks `Choices` at each decision, with its own answer as default. `Choices` answers with
the default, `RecordedChoices` also notes what may be chosen, `GivenChoices` answers from a point.
What is legal depends on the function and the target only, never on other answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from vdla.compiler.operators.checks import OperatorError
from vdla.compiler.operators.cpu.register_tile import RegisterTile

Answer = int | str | bool
_Answer = TypeVar("_Answer", int, str, bool)
PARALLEL, THREADS = "parallel", "threads"
"""The names of the choice that schedules for several threads have."""
MOST_THREADS = 256
"""Of the pool."""
TILE = ("tile_depth", "tile_columns", "tile_vectors")
"""The names of a register tile: rows and columns of the image or matrix, and vectors."""


@dataclass(frozen=True, slots=True)
class ScheduleChoice:
    """A decision: `legal` are combinations of values of `names`, `default` is one of them.

    Of a register tile, `extents` are the rows, columns and vectors that it cuts up.
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
        """Called when the schedule with the answers is illegal for a function, and is not used."""

    def value(self, name: str, default: _Answer, legal: Iterable[_Answer]) -> _Answer:
        """One value."""
        values: dict[Answer, None] = dict.fromkeys((*legal, default))
        choice = ScheduleChoice((name,), (default,), tuple((value,) for value in values))
        return cast("_Answer", self.answer(choice)[0])

    def of_threads(self, choice: ScheduleChoice) -> tuple[Answer, ...]:
        """The values of a choice that there is only for several threads."""
        return choice.default if self.threads == 1 else self.answer(choice)

    def tile(self, default: RegisterTile, legal: Iterable[RegisterTile], extents: tuple[int, int, int]) -> RegisterTile:
        """A register tile of `extents`: rows, columns, vectors."""
        tiles = tuple(dict.fromkeys(map(_extents, (*legal, default))))
        found = self.answer(ScheduleChoice(TILE, _extents(default), tiles, extents))
        depth, columns, vectors = cast("tuple[int, int, int]", found)
        return RegisterTile(depth * columns, vectors, depth)


def _extents(tile: RegisterTile) -> tuple[int, int, int]:
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
    """The values of a point, which may have others that no decision asks for.

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
        found = tuple(self._point[name] for name in choice.names)
        if found not in choice.legal:
            names = ", ".join(choice.names)
            raise OperatorError(f"schedule: {names} must be one of {_listed(choice.legal)}, got {_shown(found)}")
        return found

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
