"""The space of a CPU kernel: the choices of its schedule, for each form.

Knobs that a form has no decision for stay at their first value, so that each schedule is one point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.operators.cpu.choices import ScheduleChoice
from vdla.compiler.tune.cpu_forms import ALGORITHM_KNOB
from vdla.compiler.tune.space import Ints, Knob, Point, Space, Value

SCHEDULE = Knob("schedule", ("default",))
"""The knob of a kernel without choices."""

FormChoices = Mapping[str, Sequence[ScheduleChoice]]


def cpu_space(name: str, forms: FormChoices) -> Space:
    """The space of all forms, by their labels."""
    knobs = _knobs(forms)
    bare = Space(name, knobs)
    codes = [_codes(bare, form, choices) for form, choices in enumerate(forms.values())]
    return Space(name, knobs, np.unique(np.concatenate(codes)))


def default_point(forms: FormChoices) -> Point:
    """The point of what is compiled without tuning: the defaults of the first form."""
    values = {knob.name: knob.values[0] for knob in _knobs(forms)}
    first = next(iter(forms.values()))
    return {**values, **{name: value for choice in first for name, value in _defaults(choice)}}


def _defaults(choice: ScheduleChoice) -> Sequence[tuple[str, Value]]:
    return tuple(zip(choice.names, choice.default, strict=True))


def _knobs(forms: FormChoices) -> tuple[Knob, ...]:
    """The form, if there are several, and each name with its values in any form."""
    values: dict[str, set[Value]] = {}
    for choice in (choice for choices in forms.values() for choice in choices):
        for place, name in enumerate(choice.names):
            values.setdefault(name, set()).update(combination[place] for combination in choice.legal)
    knobs = tuple(Knob(name, tuple(sorted(found))) for name, found in values.items())
    return (Knob(ALGORITHM_KNOB, tuple(forms)), *knobs) if len(forms) > 1 else knobs or (SCHEDULE,)


def _codes(space: Space, form: int, choices: Sequence[ScheduleChoice]) -> Ints:
    """The codes of all combinations of the choices of one form."""
    places = {knob.name: place for place, knob in enumerate(space.knobs)}
    digits = np.zeros((1, len(space.knobs)), np.int64)
    if ALGORITHM_KNOB in places:
        digits[:, places[ALGORITHM_KNOB]] = form
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
