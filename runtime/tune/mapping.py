# SPDX-License-Identifier: Apache-2.0
"""The choice of a mapping by measurement: the exact cycles of the first few candidates.

The estimate only orders the candidates; across mappings it is too rough to choose by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from vdla.compiler import te
from vdla.compiler.map import MapError, MappedOperator, Refusal, candidates
from vdla.hardware.config import Config
from vdla.runtime.tune.best import TunedSchedules
from vdla.simulator.timing import time_program
from vdla.support.integers import is_int

MEASURED = 8
_ACCURACY = 0.9  # of estimates: a mapping whose estimate is further above the best is not timed
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class MappingReport:
    """The mappings of an expression: the measured ones by cycles, then the others by estimate.

    `cycles` has those of the measured ones; the first is the choice. `others` are the intrinsics
    that compute something else.
    """

    operators: tuple[MappedOperator, ...]
    cycles: tuple[int, ...]
    refused: tuple[Refusal, ...]
    others: tuple[Refusal, ...]


_Timed = Sequence[tuple[int, MappedOperator]]
"""Cycles and the mapping that takes them."""


def explore_mappings(
    output: te.Tensor,
    config: Config,
    threads: int = 2,
    measured: int = MEASURED,
    name: str = "",
    progress: Progress = lambda what, done, total: None,
) -> MappingReport:
    """All mappings of a plain expression; of the first `measured` by cost, those that can be the
    best are timed exactly.

    Raises:
        MapError: no intrinsic of the machine covers the expression.
    """
    if not is_int(measured) or measured < 1:
        raise MapError(f"map {name or output.name}: measured must be an integer from 1, got {measured!r}")
    mapped = candidates(output, config, threads, name=name)
    timed: list[tuple[int, MappedOperator]] = []
    others: list[MappedOperator] = []
    first = mapped.found[:measured]
    for number, operator in enumerate(first):
        progress(str(operator.mapping), number, len(first))
        if (equal := _equal(operator, timed)) is not None:
            others.append(operator.with_tiles(equal.tiling, equal.known_estimate))
        elif (best := _promising(operator, threads, timed)) is not None:
            timed.append((time_program(best.program, config).total_cycles, best))
        else:
            others.append(operator)
    timed.sort(key=_cost)
    operators = (*(operator for _, operator in timed), *others, *mapped.found[measured:])
    return MappingReport(operators, tuple(cycles for cycles, _ in timed), mapped.refused, mapped.others)


def _equal(operator: MappedOperator, timed: _Timed) -> MappedOperator | None:
    """A timed mapping of an equal problem: such differ in where elements lie, not in cycles."""
    same = (other for _, other in timed if other.problem == operator.problem)
    return next((other for other in same if other.extra_cycles <= operator.extra_cycles), None)


def _promising(operator: MappedOperator, threads: int, timed: _Timed) -> MappedOperator | None:
    """The mapping with its best tiles, if it can take less than what has been timed."""
    least = min(map(_cost, timed), default=inf)
    if operator.least_cycles + operator.extra_cycles >= least:
        return None
    best = operator.with_best_tiles(threads)
    return best if _ACCURACY * best.estimate + best.extra_cycles < least else None


def _cost(timed: tuple[int, MappedOperator]) -> float:
    cycles, operator = timed
    return cycles + operator.extra_cycles


def map_expression(
    output: te.Tensor,
    target: Config | str,
    *,
    threads: int = 2,
    measured: int = MEASURED,
    name: str = "",
    tuned: TunedSchedules | str | Path | None = None,
) -> MappedOperator:
    """A program for a plain tensor expression, on the intrinsics of a machine.

    `target` is a machine or the name of one. Of the first `measured` mappings, the one with the
    fewest cycles is used; data that the host duplicates counts. With `tuned`, it is the best
    mapping and tiles in a log of `vdla tune`, if the log has the expression.

    Raises:
        MapError: no intrinsic of the machine covers the expression.
        TuningError: the log cannot be read or has another version.
    """
    config = Config.preset(target) if isinstance(target, str) else target
    if not isinstance(config, Config):
        raise MapError(f"map: target must be a Config or the name of one, got {target!r}")
    known = None if tuned is None else TunedSchedules.of(tuned).mapped(output, config, name)
    if known is not None:
        return known
    return explore_mappings(output, config, threads, measured, name).operators[0]
