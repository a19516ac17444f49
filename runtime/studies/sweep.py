# SPDX-License-Identifier: Apache-2.0
"""Sweeps: the fields of a machine that vary, and the machine of each combination of values.

A field of the DRAM is `dram.NAME`; `extensions` takes files joined by `+`, which come beside the
extensions of the base, `none` or `with` for these alone, and `without` for none at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from vdla.compiler.extensions import extend
from vdla.compiler.tune import Knob, Point, Value
from vdla.hardware.config import Config, Dram
from vdla.support.errors import Error
from vdla.support.suggest import one_of


class ExploreError(Error, ValueError):
    """A sweep without a machine that can be built, or an option that cannot be used."""


Objectives = tuple[float, ...]
"""Less is better in each place."""


def on_front(points: Sequence[Objectives]) -> list[bool]:
    """Whether no other point is at most as large in every place and smaller in one."""
    return [not any(_dominates(other, point) for other in points) for point in points]


def _dominates(one: Objectives, other: Objectives) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


EXTENSIONS, NONE, WITH, WITHOUT = "extensions", "none", "with", "without"
_DRAM = "dram."
_FIXED = ("name", "dram", "clock_mhz", "extensions", "stage")  # what is not an integer field of a machine
MOST = 100_000
"""Combinations of one sweep."""


def swept_fields() -> list[str]:
    """What can be swept."""
    names = [field.name for field in fields(Config) if field.name not in _FIXED]
    return [*names, *(f"{_DRAM}{field.name}" for field in fields(Dram)), EXTENSIONS]


def knobs_of(values: Mapping[str, Sequence[Value]], sources: Sequence[str] = ()) -> tuple[Knob, ...]:
    """The knobs of a sweep of a base with some extensions; ExploreError for an unknown field, none
    at all, or too many.
    """
    known, combinations = swept_fields(), 1
    for name, listed in values.items():
        if name not in known:
            raise ExploreError(f"explore: field must be {one_of(name, known)}")
        combinations *= len(listed)
    word = next((str(word) for word in values.get(EXTENSIONS, ()) if word in (WITH, WITHOUT)), None)
    if word is not None and not sources:
        raise ExploreError(f"explore: extensions={word} must have extensions of the machine (--extension), got none")
    if not values:
        raise ExploreError("explore: sweep must have a field, got none")
    if combinations > MOST:
        raise ExploreError(f"explore: sweep must have at most {MOST:,} combinations, got {combinations:,}")
    return tuple(Knob(name, tuple(listed)) for name, listed in values.items())


@dataclass(frozen=True, slots=True)
class SweptMachine:
    """A machine of a sweep, with what other processes load for its extensions."""

    config: Config
    sources: tuple[str, ...]


def machine_of(base: Config, sources: Sequence[str], point: Point) -> SweptMachine:
    """The machine of a point: `base` and its `sources` of extensions, with other values.

    Raises:
        ConfigError, ExtensionError: no such machine can be.
    """
    values: dict[str, Any] = {name: value for name, value in point.items() if "." not in name and name != EXTENSIONS}
    dram: dict[str, Any] = {name[len(_DRAM) :]: value for name, value in point.items() if name.startswith(_DRAM)}
    files = str(point.get(EXTENSIONS, NONE))
    given = () if files == WITHOUT else sources
    every = (*given, *(() if files in (NONE, WITH, WITHOUT) else files.split("+")))
    plain = replace(base.plain, **values, dram=replace(base.dram, **dram))
    return SweptMachine(extend(plain, *every), tuple(every))
