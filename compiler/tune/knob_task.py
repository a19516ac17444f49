"""The tuning task of a schedule function with knobs.

Nothing is known of it but its knobs: there is no estimate, and the features are the knobs' values.
Its first legal point is the default, with which others are compared.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.target import Target
from vdla.compiler.tune.cpu_forms import CpuForm
from vdla.compiler.tune.errors import TuneError
from vdla.compiler.tune.knobs import Knobs, knob_features
from vdla.compiler.tune.space import Ints, Point, Space
from vdla.compiler.tune.task import Built
from vdla.hardware.program import Program

ScheduleFunction = Callable[[Knobs], Built]


@dataclass(frozen=True, eq=False)
class KnobTask:
    """A schedule function; `content` is text that changes when what it computes changes."""

    name: str
    schedule: ScheduleFunction
    content: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is derived."""
        return KnobTask, (self.name, self.schedule, self.content)

    @cached_property
    def key(self) -> str:
        """A hash of the content and of the knobs."""
        words = json.dumps([self.content, [[knob.name, *knob.values] for knob in self.space.knobs]])
        return hashlib.sha256(words.encode()).hexdigest()[:16]

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

    def of_log(self, point: Point) -> Point:
        """The same point."""
        return point

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

    def draft(self, point: Point) -> Built:
        """The same as `build`."""
        return self.build(point)

    def overhead(self, point: Point) -> float:
        """Nothing."""
        return 0.0

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
        TuneError: it is no function, or it has no source and no content is given.
    """
    if not callable(schedule):
        raise TuneError(f"tune: schedule must be a function of its knobs, got {schedule!r}")
    name = name or getattr(schedule, "__name__", "schedule")
    try:
        content = content or inspect.getsource(schedule)
    except (OSError, TypeError):
        raise TuneError(f"tune {name}: content must be given for a function without source, got none") from None
    return KnobTask(name, schedule, content)
