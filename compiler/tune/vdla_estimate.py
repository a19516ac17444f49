# SPDX-License-Identifier: Apache-2.0
"""Estimates of points: a coarse run of those that look best, the closed form of all others.

The closed form costs a fraction of a microsecond a point and is often wrong by more than the best
points differ. Points that are not run, because there are too many or their runs would take too
long, are ranked after the better half of those that were. A point's estimate does not depend on
which others are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.vdla.tile_busiest_unit import busiest_unit
from vdla.compiler.operators.vdla.tile_candidates import Candidates, estimated
from vdla.compiler.operators.vdla.tile_rates import steps_of
from vdla.compiler.operators.vdla.tile_search import waits_for_memory
from vdla.compiler.operators.vdla.tile_timeline import timeline
from vdla.compiler.tune.space import Bools, Ints, Space
from vdla.compiler.tune.vdla_forms import Form
from vdla.compiler.tune.vdla_space import FORM, candidates_of
from vdla.hardware.config import Config

Floats = NDArray[np.float64]

_RUN = 2048  # points of a space, by each closed form
_RUN_OF_FORM = 64  # at least
_MOST_STEPS = 400  # of a run
_RUN_AT_ONCE = 512
_MOST_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class _CoarseRun:
    """Points that were run, ascending, with their cycles; for each form, what the closed form of
    the other points is multiplied by.
    """

    indices: Ints
    cycles: Floats
    scales: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Looks:
    """Points of a form by both closed forms: `rough` is [point, closed form], infinite where a run
    takes long.

    `skipped` is the least closed form of all that are not run.
    """

    indices: Ints
    rough: Floats
    skipped: float

    def best(self, count: int) -> _Looks:
        """The `count` best points by each closed form, of those that do not take long."""
        chosen = np.zeros(len(self.indices), np.bool_)
        chosen[np.argsort(self.rough, axis=0, kind="stable")[:count]] = True
        chosen &= np.isfinite(self.rough[:, 0])
        skipped = min(self.skipped, float(self.rough[~chosen, 0].min(initial=np.inf)))
        return _Looks(self.indices[chosen], self.rough[chosen], skipped)


@dataclass(frozen=True, eq=False)
class TileEstimate:
    """Estimated cycles of the points of a space, with those of the host."""

    config: Config
    forms: Mapping[str, Form]
    space: Space

    def cycles(self, indices: Ints) -> Floats:
        """[point]."""
        run = self._run
        result = np.zeros(len(indices))
        for form, chosen, tiles in self.by_form(indices):
            closed = estimated(self.config, form.problem, tiles)
            result[chosen] = run.scales[form.label] * closed + form.overhead
        if not len(run.indices):
            return result
        at = np.minimum(np.searchsorted(run.indices, indices), len(run.indices) - 1)
        return np.where(run.indices[at] == indices, run.cycles[at], result)

    def by_form(self, indices: Ints) -> Iterator[tuple[Form, Bools, Candidates]]:
        """Each form, which of the points have it, and their tiles."""
        columns = self.space.columns(indices)
        for label, form in self.forms.items():
            chosen = columns[FORM] == label
            if chosen.any():
                yield form, chosen, candidates_of({name: column[chosen] for name, column in columns.items()})

    @cached_property
    def _run(self) -> _CoarseRun:
        """The run of the points that look best; none where it is no better than the closed form."""
        if waits_for_memory(self.config):
            return _CoarseRun(np.zeros(0, np.int64), np.zeros(0), dict.fromkeys(self.forms, 1.0))
        scales, parts = dict.fromkeys(self.forms, 1.0), []
        for label, looks in self._promising.items():
            cycles = self._cycles_of_run(looks.indices)
            if len(cycles):
                middle = float(np.median(cycles)) - self.forms[label].overhead
                scales[label] = max(1.0, middle / looks.skipped)
            parts.append((looks.indices, cycles))
        indices, cycles = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(indices)
        return _CoarseRun(indices[order], cycles[order], scales)

    def _cycles_of_run(self, indices: Ints) -> Floats:
        """The coarse run of points, a limited number at once."""
        cycles = np.zeros(len(indices))
        for start in range(0, len(indices), _RUN_AT_ONCE):
            part = slice(start, start + _RUN_AT_ONCE)
            for form, chosen, tiles in self.by_form(indices[part]):
                cycles[part][chosen] = timeline(self.config, form.problem, tiles) + form.overhead
        return cycles

    @property
    def _promising(self) -> Mapping[str, _Looks]:
        """The points of each form that look best."""
        count = max(_RUN_OF_FORM, _RUN // len(self.forms))
        tables: dict[str, list[_Looks]] = {label: [] for label in self.forms}
        for start in range(0, self.space.size, _MOST_AT_ONCE):
            part = np.arange(start, min(start + _MOST_AT_ONCE, self.space.size))
            for form, chosen, tiles in self.by_form(part):
                tables[form.label].append(self._looks(form, part[chosen], tiles).best(count))
        return {label: _joined(table).best(count) for label, table in tables.items() if table}

    def _looks(self, form: Form, indices: Ints, tiles: Candidates) -> _Looks:
        """Points by their closed forms."""
        closed = [rough(self.config, form.problem, tiles) for rough in (estimated, busiest_unit)]
        long = np.asarray(steps_of(form.problem, tiles) > _MOST_STEPS)  # a coarse run would take long
        skipped = float(closed[0][long].min(initial=np.inf))
        return _Looks(indices, np.where(long[:, None], np.inf, np.stack(closed, axis=1)), skipped)


def _joined(tables: list[_Looks]) -> _Looks:
    """The points of all tables."""
    return _Looks(
        np.concatenate([table.indices for table in tables]),
        np.concatenate([table.rough for table in tables]),
        min(table.skipped for table in tables),
    )
