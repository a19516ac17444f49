# SPDX-License-Identifier: Apache-2.0
"""Knobs of a schedule function: the function asks for values, and what it may ask for is a space.

    def schedule(knobs):
        outer, inner = knobs.split("y", extent=56)
        order = knobs.choice("order", ["yx", "xy"])
        ...
        return function

The function runs once to declare its knobs, with the first value of each, and then for each point.
It must ask for the same knobs every time.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.target import Target
from vdla.compiler.tune.cpu_forms import CpuForm
from vdla.compiler.tune.space import Bools, Columns, Ints, Knob, Point, Rule, Space, TuneError, Value
from vdla.compiler.tune.task import Built, FunctionTask, content_key
from vdla.hardware.program import Program
from vdla.support.integers import is_int

Choice = TypeVar("Choice", int, str, bool)


class Knobs:
    """What a schedule function asks, and the answers of a point; by default the first values."""

    def __init__(self, point: Point | None = None) -> None:
        self._point = point
        self._knobs: dict[str, Knob] = {}
        self._rules: list[Rule] = []

    def choice(self, name: str, values: Sequence[Choice]) -> Choice:
        """One of some values.

        Raises:
            TuneError: no value is given, or the name is in use.
        """
        if name in self._knobs:
            raise TuneError(f"knobs: name must be new, got {name} twice")
        self._knobs[name] = Knob(name, tuple(values))
        if self._point is None:
            return values[0]
        if name not in self._point:
            raise TuneError(f"knobs: schedule must ask for the same knobs at every point, got {name} as well")
        return values[self._knobs[name].digit("knobs", self._point[name])]

    def flag(self, name: str) -> bool:
        """Yes or no."""
        return self.choice(name, [False, True])

    def split(self, name: str, extent: int, parts: int = 2, most: int | None = None) -> tuple[int, ...]:
        """Factors of an extent, outermost first; the inner ones are at most `most`.

        There is a knob for each inner factor: `name`, or `name.1`, `name.2`, ... for several.

        Raises:
            TuneError: an argument is out of range, or the name is taken.
        """
        limit = extent if most is None else most
        for what, value, least in (("extent", extent, 1), ("parts", parts, 2), ("most", limit, 1)):
            if not is_int(value) or value < least:
                raise TuneError(f"knob {name}: {what} must be an integer from {least}, got {value!r}")
        names = [name] if parts == 2 else [f"{name}.{number}" for number in range(1, parts)]
        factors = [size for size in range(1, min(extent, limit) + 1) if extent % size == 0]
        inner = [self.choice(item, factors) for item in names]
        if parts > 2:
            self.require(lambda columns: np.asarray(extent % prod(columns[item] for item in names) == 0))
        return extent // prod(inner), *inner

    def require(self, rule: Rule) -> None:
        """Only points for which a rule holds are legal; it judges columns of the knobs."""
        self._rules.append(rule)

    def space(self, name: str) -> Space:
        """The space of what was asked.

        Raises:
            TuneError: nothing was, or no point is legal.
        """
        if not self._knobs:
            raise TuneError(f"tune {name}: the schedule must ask for a knob, got none")
        knobs = tuple(self._knobs.values())
        return Space.where(name, knobs, self._are_legal) if self._rules else Space(name, knobs)

    def _are_legal(self, columns: Columns) -> Bools:
        count = len(next(iter(columns.values())))
        judged = [np.broadcast_to(np.asarray(rule(columns), bool), count) for rule in self._rules]
        return np.asarray(np.logical_and.reduce(judged), np.bool_)

    def check_all_asked(self) -> None:
        """TuneError unless every value of the point was asked for."""
        unknown = [name for name in self._point or {} if name not in self._knobs]
        if unknown:
            raise TuneError(f"knobs: schedule must ask for the same knobs at every point, got none for {unknown[0]}")


def knob_features(space: Space, columns: Columns) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Names and columns of features: log2 of integers, 1 or 0 for flags and for each word."""
    names: list[str] = []
    result: list[np.ndarray] = []
    for knob in space.knobs:
        column = columns[knob.name]
        if knob.is_ordered:
            names.append(f"log2 {knob.name}")
            result.append(np.log2(np.maximum(column, 0) + 1.0))
            continue
        for value in _words(knob):
            names.append(f"{knob.name} is {value}")
            result.append((column == value).astype(float))
    return tuple(names), result


def _words(knob: Knob) -> tuple[Value, ...]:
    """The values that have a feature each; of two, one is enough."""
    return knob.values[1:] if len(knob.values) == 2 else knob.values


ScheduleFunction = Callable[[Knobs], Built]


@dataclass(frozen=True, eq=False)
class KnobTask(FunctionTask):
    """A schedule function; `content` is text that changes when what it computes changes.

    Nothing is known of it but its knobs: there is no estimate, and the features are the knobs'
    values. Its first legal point is the default, with which others are compared.
    """

    name: str
    schedule: ScheduleFunction
    content: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is derived."""
        return KnobTask, (self.name, self.schedule, self.content)

    @cached_property
    def key(self) -> str:
        """A hash of the content and of the knobs."""
        return content_key(json.dumps([self.content, [[knob.name, *knob.values] for knob in self.space.knobs]]))

    @cached_property
    def space(self) -> Space:
        """The legal answers to what the function asks.

        Raises:
            TuneError: it asks nothing, or nothing is legal.
        """
        asked = Knobs()
        self.schedule(asked)
        return asked.space(self.name)

    @property
    def default(self) -> Point:
        """The first value of each knob, or the first point that is legal."""
        return self.space.point(0)

    @property
    def target(self) -> Target:
        """The CPU that functions run on: this one."""
        return Target.named("host")

    @cached_property
    def _form(self) -> CpuForm:
        built = self.build(self.default)
        if isinstance(built, Program):
            raise TuneError(f"tune {self.name}: schedule must return a function to run on a CPU, got a Program")
        return CpuForm(built)

    def form(self, point: Point) -> CpuForm:
        """The only form, that of the default point; it has no constants.

        Raises:
            TuneError: the function returns programs.
        """
        return self._form

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """One for each knob, or for each of its values where they are words."""
        return knob_features(self.space, self.space.columns(np.zeros(1, np.int64)))[0]

    def build(self, point: Point) -> Built:
        """What the function returns for a point.

        Raises:
            TuneError: the point is not legal, or the function asks for other knobs.
        """
        self.space.index(point)
        answers = Knobs(point)
        built = self.schedule(answers)
        answers.check_all_asked()
        if not isinstance(built, Built):
            rule = "schedule must return a Program or the function of a Schedule"
            raise TuneError(f"tune {self.name}: {rule}, got {type(built).__name__}")
        return built

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """The same for all points."""
        return np.ones(len(indices))

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        columns = knob_features(self.space, self.space.columns(indices))[1]
        return np.stack(columns, axis=1).astype(np.float32)


def knob_task(schedule: ScheduleFunction, name: str = "", content: str = "") -> KnobTask:
    """The task of a schedule function.

    `content` identifies what is computed and for which machine; by default it is the function's
    source. To be measured in other processes, the function must be at the top of a module.

    Raises:
        TuneError: it is not a function, or it has no source and no content is given.
    """
    if not callable(schedule):
        raise TuneError(f"tune: schedule must be a function of its knobs, got {schedule!r}")
    name = name or getattr(schedule, "__name__", "schedule")
    try:
        content = content or inspect.getsource(schedule)
    except (OSError, TypeError):
        raise TuneError(f"tune {name}: content must be given for a function without source, got none") from None
    return KnobTask(name, schedule, content)
