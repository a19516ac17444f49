# SPDX-License-Identifier: Apache-2.0
"""Targets by name, a machine or a CPU (no name is both); numbers for the symbols of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from vdla.runtime.executor.errors import ModelError
from vdla.support.integers import is_int

if TYPE_CHECKING:
    from vdla.compiler.target import Target
    from vdla.hardware.config import Config


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


def combinations(extents: Extents) -> tuple[dict[str, int], list[dict[str, int]]]:
    """The symbols with one number, and every combination of the numbers of the others.

    Raises:
        ModelError: numbers that are no integers from 0, a number twice, or too many combinations.
    """
    numbers = {name: _numbers(name, given) for name, given in extents.items()}
    fixed = {name: given[0] for name, given in numbers.items() if len(given) == 1}
    several = {name: given for name, given in numbers.items() if len(given) > 1}
    count = prod(map(len, several.values()))
    if count > _MOST_PLANS:
        raise ModelError(f"compile: extents must give at most {_MOST_PLANS} plans, got {count}")
    return fixed, [dict(zip(several, item, strict=True)) for item in product(*several.values())] if several else []


def _numbers(name: str, given: int | Sequence[int]) -> list[int]:
    numbers = list(given) if isinstance(given, list | tuple | range) else [given]
    valid = numbers and all(is_int(number) and number >= 0 for number in numbers)
    if not valid or len(set(numbers)) < len(numbers):
        raise ModelError(f"compile: extents of {name} must be different integers from 0, got {given!r}")
    return [int(number) for number in numbers]  # type: ignore[arg-type]
