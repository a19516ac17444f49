# SPDX-License-Identifier: Apache-2.0
"""Targets by name, a machine or a CPU (no name is both); the shapes that plans are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from vdla.runtime.executor.errors import ModelError
from vdla.support.integers import is_int
from vdla.support.symbolic_shapes import Shape, shape_words

if TYPE_CHECKING:
    from vdla.compiler.target import Target
    from vdla.hardware.config import Config


GRID_TARGETS = ("opencl", "cuda")
"""Targets that are a GPU, before a colon and its name."""
_GRIDS = "opencl[:NAME] or cuda[:NAME]"


def target_of(target: object, error: type[Exception]) -> Config | Target:
    """The configuration or the CPU that `target` is, or names; `error` if it is neither."""
    from vdla.compiler.target import TARGETS, Target
    from vdla.hardware.config import PRESETS, Config
    from vdla.support.suggest import did_you_mean

    if isinstance(target, Config | Target):
        return target
    if not isinstance(target, str):
        raise error(f"compile: target must be a Config, a Target or a name, got {type(target).__name__}")
    if target in PRESETS:
        return PRESETS[target]
    cpus = ("host", *TARGETS)
    if target in cpus:
        return Target.named(target)
    choices = f"an accelerator ({', '.join(PRESETS)}), a CPU ({', '.join(cpus)}) or a GPU ({_GRIDS})"
    hint = did_you_mean(target, (*PRESETS, *cpus, "opencl", "cuda"))
    raise error(f"compile: target must be {choices}, got {target!r}{hint}")


Extents = Mapping[str, int | Sequence[int]]
_MOST_PLANS = 16
_Shapes = int | Sequence[int] | Sequence[Sequence[int]]
Shapes = Mapping[str, _Shapes] | _Shapes
"""Shapes by input, or that of the only one; several of an input make several sets."""


@dataclass(frozen=True, slots=True)
class ShapeSet:
    """Numbers of symbols, and shapes of inputs, that one plan is for."""

    extents: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)


def shape_sets(extents: Extents | None, shapes: Shapes | None) -> list[ShapeSet]:
    """What each plan is for: every combination of the numbers of symbols, for each set of shapes.

    Raises:
        ModelError: numbers that are not integers from 0, a number or a set twice, or too many sets.
    """
    numbers = {name: _numbers(name, given) for name, given in (extents or {}).items()}
    given = _sets_of_shapes(shapes)
    count = prod(map(len, numbers.values())) * len(given)
    if count > _MOST_PLANS:
        source = "extents" if len(given) == 1 else "shapes"
        raise ModelError(f"compile: {source} must give at most {_MOST_PLANS} plans, got {count}")
    combined = (dict(zip(numbers, item, strict=True)) for item in product(*numbers.values()))
    return [ShapeSet(extents, chosen) for extents in combined for chosen in given]


def common(sets: Sequence[ShapeSet]) -> ShapeSet:
    """What all sets have in common: with that, the model is imported."""
    first, *others = sets
    if not others:
        return first
    return ShapeSet(
        {name: number for name, number in first.extents.items() if all(item.extents[name] == number for item in others)}
    )


def _numbers(name: str, given: int | Sequence[int]) -> list[int]:
    numbers = list(given) if isinstance(given, list | tuple | range) else [given]
    valid = numbers and all(is_int(number) and number >= 0 for number in numbers)
    if not valid or len(set(numbers)) < len(numbers):
        raise ModelError(f"compile: extents of {name} must be different integers from 0, got {given!r}")
    return [int(number) for number in numbers]  # type: ignore[arg-type]


def _sets_of_shapes(shapes: Shapes | None) -> list[dict[str, Shape]]:
    """The sets: the first shapes of all inputs, the second ones, and so on; one shape is in all."""
    named: Mapping[str, _Shapes] = shapes if isinstance(shapes, Mapping) else {} if shapes is None else {"": shapes}
    lists = {name: _shapes(name, given) for name, given in named.items()}
    most = max(lists.items(), key=lambda item: len(item[1]), default=("", [()]))
    count = len(most[1])
    for name, several in lists.items():
        if len(several) not in (1, count):
            rule = f"compile: shapes of {name} must be one or {count}, as many as {most[0]} has"
            raise ModelError(f"{rule}, got {len(several)}")
    sets = [{name: several[at if len(several) > 1 else 0] for name, several in lists.items()} for at in range(count)]
    for at, item in enumerate(sets):
        if item in sets[:at]:
            words = " ".join(
                f"{name}={shape_words(shape)}" if name else shape_words(shape) for name, shape in item.items()
            )
            raise ModelError(f"compile: sets of shapes must differ, got {words} twice")
    return sets


def _shapes(name: str, given: object) -> list[Shape]:
    """The shapes of an input."""
    if isinstance(given, list | tuple) and given and all(isinstance(item, list | tuple) for item in given):
        return [_shape(name, item) for item in given]
    return [_shape(name, given)]


def _shape(name: str, given: object) -> Shape:
    if not isinstance(given, list | tuple) or not all(is_int(extent) and extent >= 0 for extent in given):
        place = f"shape of {name}" if name else "shape"
        raise ModelError(f"compile: {place} must have integers from 0 as extents, got {given!r}")
    return tuple(map(int, given))
