# SPDX-License-Identifier: Apache-2.0
"""Tuning tasks for CPU kernels: the forms of a group of nodes, and the choices of their schedules.

    task = kernel_task(graph, host())
    function = task.build(task.space.point(0))

The draft of costs puts the point of the default schedule first. In the space, knobs that a form has
no decision for stay at their first value, so that each schedule is one point.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.graph import Graph
from vdla.compiler.operators.checks import OperatorError
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.cpu.choices import GivenChoices, RecordedChoices, ScheduleChoice
from vdla.compiler.target import Target
from vdla.compiler.tune.cpu_features import CPU_FEATURES, CpuProblem, cpu_features, cpu_problem, draft_costs
from vdla.compiler.tune.cpu_forms import CpuForm, FormKey, Forms, graph_forms
from vdla.compiler.tune.space import Columns, Ints, Knob, Point, Space, Value
from vdla.compiler.tune.task import FunctionTask, content_key

_SCHEDULE = Knob("schedule", ("default",))
"""The knob of a kernel without choices."""

_FormChoices = Mapping[FormKey, Sequence[ScheduleChoice]]


def _cpu_space(name: str, forms: _FormChoices) -> Space:
    """The space of all forms."""
    knobs = _knobs(forms)
    bare = Space(name, knobs)
    codes = [_codes(bare, key, choices) for key, choices in forms.items()]
    return Space(name, knobs, np.unique(np.concatenate(codes)))


def _default_point(space: Space, forms: _FormChoices) -> Point:
    """The point of what is compiled without tuning: the defaults of the first form."""
    key, choices = next(iter(forms.items()))
    defaults = {name: value for choice in choices for name, value in zip(choice.names, choice.default, strict=True)}
    return _point_of(space, key, choices, defaults)


def _point_of(space: Space, key: FormKey, choices: Sequence[ScheduleChoice], values: Point) -> Point:
    """The point of a form with `values` for its choices, and the first ones for all others."""
    first = {**{knob.name: knob.values[0] for knob in space.knobs}, **key._asdict()}
    point = {name: values[name] for choice in choices for name in choice.names if name in values}
    return {knob.name: {**first, **point}[knob.name] for knob in space.knobs}


def _knobs(forms: _FormChoices) -> tuple[Knob, ...]:
    """What forms differ by, and each name with its values in any form."""
    values: dict[str, set[Value]] = {}
    for choice in (choice for choices in forms.values() for choice in choices):
        for place, name in enumerate(choice.names):
            values.setdefault(name, set()).update(combination[place] for combination in choice.legal)
    knobs = tuple(Knob(name, tuple(sorted(options))) for name, options in values.items())
    ways = tuple(Knob(name, values) for name, values in _ways(forms).items())
    return (*ways, *knobs) or (_SCHEDULE,)


def _ways(forms: _FormChoices) -> Mapping[str, tuple[Value, ...]]:
    """The values of each field of the forms that has several, those of the first form first."""
    columns = zip(FormKey._fields, zip(*forms, strict=True), strict=True)
    return {name: values for name, column in columns if len(values := tuple(dict.fromkeys(column))) > 1}


def _codes(space: Space, key: FormKey, choices: Sequence[ScheduleChoice]) -> Ints:
    """The codes of all combinations of the choices of one form."""
    places = {knob.name: place for place, knob in enumerate(space.knobs)}
    digits = np.zeros((1, len(space.knobs)), np.int64)
    for name, value in key._asdict().items():
        if name in places:
            digits[:, places[name]] = space.knobs[places[name]].digit(f"space {space.name}", value)
    for choice in choices:
        legal = np.array([_digits(space, places, choice, values) for values in choice.legal])
        digits, count = np.repeat(digits, len(legal), axis=0), len(digits)
        for column, name in enumerate(choice.names):
            digits[:, places[name]] = np.tile(legal[:, column], count)
    return space.codes(digits)


def _digits(space: Space, places: Mapping[str, int], choice: ScheduleChoice, values: Sequence[Value]) -> list[int]:
    """The positions of the values of a choice in their knobs."""
    knobs = (space.knobs[places[name]] for name in choice.names)
    return [knob.digit(f"space {space.name}", value) for knob, value in zip(knobs, values, strict=True)]


CPU_SPACE_VERSION = 1
"""Points of another version mean something else."""
MakeForms = Callable[[], Forms]
_State = tuple[str, Target, MakeForms, int]
_OTHER_CHOICE = 0.02  # the draft's cost of a choice that differs from the default, of all costs


@dataclass(frozen=True, eq=False)
class CpuTask(FunctionTask):
    """A kernel for a CPU on some threads; `make_forms` makes its forms, that of the default
    first.
    """

    name: str
    target: Target
    make_forms: MakeForms
    threads: int = 1

    def __getstate__(self) -> _State:
        return self.name, self.target, self.make_forms, self.threads

    def __setstate__(self, state: _State) -> None:
        for name, value in zip(("name", "target", "make_forms", "threads"), state, strict=True):
            object.__setattr__(self, name, value)

    @cached_property
    def forms(self) -> Forms:
        """The forms."""
        return self.make_forms()

    @cached_property
    def key(self) -> str:
        """A hash of the unscheduled function, the CPU, its threads and the version of the space."""
        return kernel_key(next(iter(self.forms.values())).function, self.target, self.threads)

    @cached_property
    def _choices(self) -> Mapping[FormKey, list[ScheduleChoice]]:
        return {key: _choices_of(form.function, self.target, self.threads) for key, form in self.forms.items()}

    @cached_property
    def space(self) -> Space:
        """Forms and the choices of their schedules; all of them are legal."""
        return _cpu_space(f"{self.name} on {self.target.cpu}", self._choices)

    @cached_property
    def default(self) -> Point:
        """The point of what is compiled without tuning."""
        return _default_point(self.space, self._choices)

    def of_log(self, point: Point) -> Point:
        """A logged point, which may be older than some forms, as one of the space."""
        key = self._key_of(point)
        return _point_of(self.space, key, self._choices[key], point)

    def form(self, point: Point) -> CpuForm:
        """The form of a point.

        Raises:
            OperatorError: the point has no form.
        """
        return self.forms[self._key_of(point)]

    def _key_of(self, point: Point) -> FormKey:
        key = FormKey.of(point, next(iter(self.forms)))
        if key not in self.forms:
            known = ", ".join(" ".join(map(str, known)) for known in self.forms)
            raise OperatorError(f"tune {self.name}: form must be one of {known}, got {' '.join(map(str, key))}")
        return key

    def build(self, point: Point) -> ir.Function:
        """The scheduled function of a point."""
        return scheduled(self.form(point).function, self.target, point)

    # --- many points

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features, the same for all kernels."""
        return CPU_FEATURES

    @cached_property
    def _problems(self) -> Mapping[FormKey, CpuProblem]:
        return {key: cpu_problem(form.function, self._choices[key], self.target) for key, form in self.forms.items()}

    @property
    def macs(self) -> int:
        """The multiply-adds of the default form; 0 without an operator."""
        problem = next(iter(self._problems.values()))
        return problem.macs if problem.operator else 0

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """Costs to compare with each other, the lowest for the default schedule."""
        columns = self.space.columns(indices)
        costs = np.zeros(len(indices))
        for key, chosen in self._by_form(columns):
            costs[chosen] = draft_costs(self._problems[key], _rows(columns, chosen))
        others = sum(column != self.default[name] for name, column in columns.items())
        costs *= 1 + _OTHER_CHOICE * np.asarray(others)
        return np.where(np.asarray(indices) == self.space.index(self.default), 0.0, costs)

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        columns = self.space.columns(indices)
        result = np.zeros((len(indices), len(CPU_FEATURES)), np.float32)
        for key, chosen in self._by_form(columns):
            result[chosen] = cpu_features(self._problems[key], _rows(columns, chosen))
        return result

    def _by_form(self, columns: Columns) -> list[tuple[FormKey, NDArray[np.bool_]]]:
        """The forms, and which points have them."""
        count = len(next(iter(columns.values())))
        result = []
        for key in self.forms:
            chosen = np.ones(count, np.bool_)
            for name, value in key._asdict().items():
                if name in columns:
                    chosen &= columns[name] == value
            result.append((key, chosen))
        return [(key, chosen) for key, chosen in result if chosen.any()]


def kernel_task(graph: Graph, target: Target, name: str = "", threads: int = 1) -> CpuTask:
    """The task of a graph whose nodes one kernel computes; weights are its constants.

    On several threads the parallel loop and its parts are knobs too.

    Raises:
        DeclinedError: a node without a tensor expression, when the task is used.
    """
    return CpuTask(name or graph.name, target, partial(graph_forms, graph, target), threads)


def function_task(function: ir.Function, target: Target, name: str = "", threads: int = 1) -> CpuTask:
    """The task of an unscheduled function, which has one form."""
    return CpuTask(name or function.name, target, partial(_only_form, function), threads)


def _only_form(function: ir.Function) -> Forms:
    return {FormKey(): CpuForm(function)}


def kernel_key(function: ir.Function, target: Target, threads: int = 1) -> str:
    """The key of the task whose default form is an unscheduled function."""
    machine = [target.triple, target.cpu, sorted(target.features), target.vector_bytes]
    content = json.dumps([str(function), machine, CPU_SPACE_VERSION])
    return key_for_threads(content_key(content), threads)


def key_for_threads(key: str, threads: int) -> str:
    """The key of a task for some threads, by that of the task for one."""
    return key if threads == 1 else content_key(f"{key} on {threads} threads")


def scheduled(function: ir.Function, target: Target, point: Point | None) -> ir.Function:
    """A function with the schedule of a point, or with the default one.

    Raises:
        OperatorError: the point lacks a choice of the schedule, or is not legal.
    """
    choices = None if point is None else GivenChoices(point)
    return default_schedule(function, target, choices).fn


def _choices_of(function: ir.Function, target: Target, threads: int) -> list[ScheduleChoice]:
    recorded = RecordedChoices(threads)
    default_schedule(function, target, recorded)
    return recorded.asked


def _rows(columns: Columns, chosen: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return {name: column[chosen] for name, column in columns.items()}
