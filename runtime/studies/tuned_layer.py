# SPDX-License-Identifier: Apache-2.0
"""A layer with tuned tiles: trials of the mappings that use some extensions, or of all.

Apart from `measure`, since the tuner takes long to import.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.map import MapError, MappedOperator, candidates
from vdla.compiler.tune import TuneError
from vdla.compiler.tune.searches import new_search
from vdla.compiler.tune.vdla_forms import ExpressionSource, Form, MappedForm
from vdla.compiler.tune.vdla_task import VdlaTask
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.tune.log import TaskRun
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.runtime.tune.tune import tune
from vdla.runtime.tune.workers import InlineWorkers


@dataclass(frozen=True, eq=False)
class UsingSource:
    """The mappings of a plain expression that use one of some extensions, as `uses` tells."""

    output: te.Tensor
    names: tuple[str, ...]
    uses: Callable[[MappedOperator, tuple[str, ...]], bool]

    @property
    def definition(self) -> str:
        """The function of the expression, and the extensions."""
        return f"{ExpressionSource(self.output).definition}\nusing {', '.join(self.names)}"

    def forms(self, config: Config) -> list[Form]:
        """These mappings."""
        return [
            MappedForm(candidate)
            for candidate in candidates(self.output, config).found
            if self.uses(candidate, self.names)
        ]


def best_of_trials(task: VdlaTask, search: str, trials: int, seed: int) -> tuple[Program, float, str]:
    """The program of the best trial, the cycles of the host that count with it, its mapping.

    Raises:
        MapError: there is nothing to choose, or every trial failed.
    """
    try:
        run = TaskRun(task.key, task.name, task.config.name, task.space.name, search, seed)
        workers = InlineWorkers(SimMeasurer())
        best = tune(task, new_search(search, task, seed), run, workers, trials=trials).best
    except TuneError as error:
        raise MapError(str(error)) from None
    return task.build(best.point), task.overhead(best.point), str(best.point["form"])
