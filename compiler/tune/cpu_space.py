"""The space of a CPU kernel: the choices of its schedule, for each form.

Knobs that a form has no decision for stay at their first value, so that each schedule is one point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.operators.cpu.choices import ScheduleChoice
from vdla.compiler.tune.cpu_forms import FormKey
from vdla.compiler.tune.space import Ints, Knob, Point, Space, Value

SCHEDULE = Knob("schedule", ("default",))
"""The knob of a kernel without choices."""

FormChoices = Mapping[FormKey, Sequence[ScheduleChoice]]


def cpu_space(name: str, forms: FormChoices) -> Space:
    """The space of all forms."""
    knobs = _knobs(forms)
    bare = Space(name, knobs)
    codes = [_codes(bare, key, choices) for key, choices in forms.items()]
    return Space(name, knobs, np.unique(np.concatenate(codes)))


def default_point(space: Space, forms: FormChoices) -> Point:
    """The point of what is compiled without tuning: the defaults of the first form."""
    key, choices = next(iter(forms.items()))
    return point_of(space, key, choices, {name: value for choice in choices for name, value in _defaults(choice)})


def point_of(space: Space, key: FormKey, choices: Sequence[ScheduleChoice], values: Point) -> Point:
    """The point of a form with `values` for its choices, and the first ones for all others."""
    first = {**{knob.name: knob.values[0] for knob in space.knobs}, **key._asdict()}
    own = {name: values[name] for choice in choices for name in choice.names if name in values}
    return {knob.name: {**first, **own}[knob.name] for knob in space.knobs}


def _defaults(choice: ScheduleChoice) -> Sequence[tuple[str, Value]]:
    return tuple(zip(choice.names, choice.default, strict=True))


def _knobs(forms: FormChoices) -> tuple[Knob, ...]:
    """What forms differ by, and each name with its values in any form."""
    values: dict[str, set[Value]] = {}
    for choice in (choice for choices in forms.values() for choice in choices):
        for place, name in enumerate(choice.names):
            values.setdefault(name, set()).update(combination[place] for combination in choice.legal)
    knobs = tuple(Knob(name, tuple(sorted(found))) for name, found in values.items())
    ways = tuple(Knob(name, values) for name, values in _ways(forms).items())
    return (*ways, *knobs) or (SCHEDULE,)


def _ways(forms: FormChoices) -> Mapping[str, tuple[Value, ...]]:
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
