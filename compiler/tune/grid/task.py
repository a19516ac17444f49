# SPDX-License-Identifier: Apache-2.0
"""The tuning task of a function on a grid of threads: the tiles of the block that does most.

    task = grid_task(fn, limits)
    scheduled = task.build(task.space.point(0))

Every point fits the limits; the first trial of a run is that of the default schedule. Features are
what a launch does, as logarithms to base 2: they mean the same for all operators and shapes, so
that tasks can share a cost model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.operators.gpu import grid_problems, grid_schedule
from vdla.compiler.operators.gpu.tile_choice import TileProblem, Tiles
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.cost_model import ESTIMATE
from vdla.compiler.tune.grid.drafts import OPERATORS, draft_work
from vdla.compiler.tune.grid.model import GridMachine, GridWork, modelled_cycles
from vdla.compiler.tune.space import Ints, Knob, Point, Space, TuneError
from vdla.compiler.tune.task import FunctionTask, content_key

_WORK = tuple(field.name for field in fields(GridWork))
KNOBS = (
    "rows", "columns", "depth", "blocks", "channels", "threads", "groups", "lanes",
    "thread_rows", "thread_columns", "thread_channels", "warp_rows", "warp_columns",
)  # fmt: skip
"""The fields of all tiles."""

GRID_FEATURES = (
    ESTIMATE,
    *(f"is_{name}" for name in OPERATORS),
    *_WORK,  # of the draft: groups, and what one of them holds and does
    "warps", "occupancy",
    "bytes_operation", "passes_operation",  # of memory and of banks, for each operation
    *(f"knob_{name}" for name in KNOBS),
)  # fmt: skip


def work_columns(works: Sequence[GridWork]) -> GridWork:
    """The work of several points as columns."""
    columns = [asdict(work) for work in works]
    return GridWork(**{name: np.array([float(column[name]) for column in columns]) for name in _WORK})


def grid_features(
    operator: str, work: GridWork, knobs: dict[str, NDArray[np.int64]], machine: GridMachine
) -> NDArray[np.float32]:
    """[point, feature], in the order of GRID_FEATURES; knobs that a form lacks are 0."""
    count = len(np.asarray(work.threads))
    known = {name: np.log2(1 + np.asarray(getattr(work, name))) for name in _WORK}
    known |= {f"is_{name}": np.full(count, float(name == operator)) for name in OPERATORS}
    known |= {f"knob_{name}": np.log2(1.0 + knobs.get(name, np.zeros(count))) for name in KNOBS}
    operations = np.maximum(work.operations, 1)
    known |= {
        ESTIMATE: np.log2(modelled_cycles(work, machine)),
        "warps": np.log2(work.warps),
        "occupancy": np.asarray(work.occupancy(machine)),
        "bytes_operation": np.asarray(work.memory_bytes / operations),
        "passes_operation": np.asarray(work.shared_passes / operations),
    }
    return np.stack([known[name] for name in GRID_FEATURES], axis=1).astype(np.float32)


GRID_SPACE_VERSION = 1
"""Points of another version mean something else."""


@dataclass(frozen=True, eq=False)
class GridTask(FunctionTask):
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
        return content_key(json.dumps([str(self.function), asdict(self.limits), self.costs, GRID_SPACE_VERSION]))

    @cached_property
    def _choice(self) -> tuple[str, TileProblem]:
        """The block whose tiles are chosen, which is the one with the most iterations, and its
        tiling problem.

        The other blocks keep the tiles that they have by default.

        Raises:
            TuneError: the function has no block to tile.
        """
        problems = grid_problems(self.function, self.limits)
        if not problems:
            raise TuneError(f"tune {self.function.name}: a block must have tiles to choose on a grid, got none")
        return max(problems.items(), key=lambda choice: choice[1].iterations)

    @property
    def block(self) -> str:
        """The block whose tiles are chosen."""
        return self._choice[0]

    @property
    def problem(self) -> TileProblem:
        """What the tiles cut up."""
        return self._choice[1]

    @cached_property
    def space(self) -> Space:
        """The tiles that fit the device.

        Raises:
            TuneError: the function has no tiles to choose.
        """
        problem, default = self.problem, self.problem.default
        values = {name: sorted({*problem.values.get(name, ()), value}) for name, value in asdict(default).items()}
        every = (replace(default, **dict(zip(values, point, strict=True))) for point in product(*values.values()))
        legal = [code for code, tiles in enumerate(every) if tiles == default or problem.fits(tiles)]
        knobs = tuple(Knob(name, tuple(column)) for name, column in values.items())
        return Space(f"{self.name} on {self.limits.name}", knobs, np.array(legal, np.int64))

    @cached_property
    def default(self) -> Point:
        """The tiles that are taken without tuning."""
        return asdict(self.problem.default)

    def tiles(self, point: Point) -> Tiles:
        """The tiles of a point.

        Raises:
            TuneError: it is not in the space.
        """
        self.space.index(point)
        return replace(self.problem.default, **point)

    def build(self, point: Point) -> ir.Function:
        """The scheduled function of a point.

        Raises:
            TuneError: it is not in the space.
            ScheduleError: the schedule is illegal for the function.
        """
        return grid_schedule(self.function, self.limits, tiles={self.block: self.tiles(point)}).fn

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
        points = (self.space.point(int(index)) for index in indices)
        return work_columns([draft_work(self.problem, replace(self.problem.default, **point)) for point in points])

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """Cycles of the block's launch by the model, drafted without building."""
        return np.asarray(modelled_cycles(self._work(indices), self._machine), np.float64)

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        knobs = dict(self.space.columns(indices))
        return grid_features(self.problem.operator, self._work(indices), knobs, self._machine)


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
