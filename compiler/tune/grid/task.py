"""The tuning task of a function on a grid of threads: the tiles of the block that does most.

    task = grid_task(fn, limits)
    scheduled = task.build(task.space.point(0))

Every point fits the limits; the first trial of a run is that of the default schedule.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.errors import TuneError
from vdla.compiler.tune.grid.features import GRID_FEATURES, draft_work, grid_features
from vdla.compiler.tune.grid.form import Tiles
from vdla.compiler.tune.grid.form_of import BlockForm, form_of
from vdla.compiler.tune.grid.model import GridMachine, GridWork, modelled_cycles
from vdla.compiler.tune.space import Ints, Knob, Point, Space

GRID_SPACE_VERSION = 1
"""Points of another version mean something else."""


@dataclass(frozen=True, eq=False)
class GridTask:
    """An unscheduled function for a device; `costs` says what its costs are, such as "measured"."""

    name: str
    function: ir.Function
    limits: GridLimits
    costs: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is derived."""
        return GridTask, (self.name, self.function, self.limits, self.costs)

    @cached_property
    def key(self) -> str:
        """A hash of the function, the device with its limits, the kind of costs and the version."""
        content = json.dumps([str(self.function), asdict(self.limits), self.costs, GRID_SPACE_VERSION])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @cached_property
    def form(self) -> BlockForm:
        """The block whose tiles are chosen.

        Raises:
            TuneError: there is none.
        """
        return form_of(self.function, self.limits)

    @cached_property
    def space(self) -> Space:
        """The tiles that fit the device.

        Raises:
            TuneError: the function has no tiles to choose.
        """
        form = self.form.form
        names = [field.name for field in fields(form.default)]
        knobs = []
        for name in names:
            own = getattr(form.default, name)
            knobs.append(Knob(name, tuple(sorted({*form.values.get(name, ()), own}))))
        bare = Space(f"{self.name} on {self.limits.name}", tuple(knobs))
        kind = type(form.default)
        legal = [
            code
            for code, values in enumerate(product(*(knob.values for knob in knobs)))
            if form.fits(kind(*values)) or kind(*values) == form.default
        ]
        return Space(bare.name, bare.knobs, np.array(legal, np.int64))

    @cached_property
    def default(self) -> Point:
        """The tiles that are taken without tuning."""
        return asdict(self.form.form.default)

    def changes(self, point: Point) -> dict[str, str]:
        """How a point differs from the default one: for each such knob both values, as "1 to 4"."""
        return {
            name: f"{self.default[name]} to {value}" for name, value in point.items() if value != self.default[name]
        }

    def of_log(self, point: Point) -> Point:
        """The same point."""
        return point

    def tiles(self, point: Point) -> Tiles:
        """The tiles of a point.

        Raises:
            TuneError: it is none of the space.
        """
        self.space.index(point)
        return replace(self.form.form.default, **point)

    def build(self, point: Point) -> ir.Function:
        """The scheduled function of a point.

        Raises:
            TuneError: it is none of the space.
            ScheduleError: the schedule is illegal for the function.
        """
        return grid_schedule(self.function, self.limits, tiles={self.form.block: self.tiles(point)}).fn

    def draft(self, point: Point) -> ir.Function:
        """The same as `build`."""
        return self.build(point)

    def overhead(self, point: Point) -> float:
        """Nothing runs outside of the kernels."""
        return 0.0

    # --- many points

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features, the same for all functions."""
        return GRID_FEATURES

    @property
    def _machine(self) -> GridMachine:
        return GridMachine()

    def _work(self, indices: Ints) -> GridWork:
        """The drafted work of points."""
        form = self.form.form
        points = (self.space.point(int(index)) for index in indices)
        return draft_work([form.work(replace(form.default, **point)) for point in points])

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """Cycles of the block's launch by the model, drafted without building."""
        return np.asarray(modelled_cycles(self._work(indices), self._machine), np.float64)

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        knobs = dict(self.space.columns(indices))
        return grid_features(self.form.form.operator, self._work(indices), knobs, self._machine)


MEASURED, MODELLED = "measured", "modelled"
"""Kinds of costs: seconds of a device, or cycles of the model."""


def grid_task(function: ir.Function, limits: GridLimits, name: str = "", costs: str = MEASURED) -> GridTask:
    """The task of an unscheduled function for a device.

    Raises:
        TuneError: another kind of costs.
    """
    if costs not in (MEASURED, MODELLED):
        raise TuneError(f"tune {function.name}: costs must be {MEASURED} or {MODELLED}, got {costs!r}")
    return GridTask(name or function.name, function, limits, costs)
