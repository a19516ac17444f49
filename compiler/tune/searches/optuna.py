"""Optuna's tree-structured Parzen estimator, a baseline from a library."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vdla.compiler.tune.searches.library import LibrarySearch
from vdla.compiler.tune.task import TuningTask

if TYPE_CHECKING:
    import optuna


class OptunaSearch(LibrarySearch):
    """Suggestions of Optuna's default sampler."""

    name = "optuna"
    library = "optuna"

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        super().__init__(task, seed)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed))
        self._values: dict[str, optuna.distributions.BaseDistribution] = {
            knob.name: optuna.distributions.IntDistribution(0, len(knob.values) - 1)
            if knob.is_ordered
            else optuna.distributions.CategoricalDistribution(tuple(range(len(knob.values))))
            for knob in task.space.knobs
        }
        self._last: optuna.trial.Trial | None = None
        self._open: dict[int, optuna.trial.Trial] = {}

    def _suggest(self) -> list[int]:
        self._last = self._study.ask(self._values)
        return [int(self._last.params[name]) for name in self._values]

    def _refuse(self) -> None:
        import optuna

        assert self._last is not None
        self._study.tell(self._last, state=optuna.trial.TrialState.FAIL)

    def _accept(self, index: int) -> None:
        assert self._last is not None
        self._open[index] = self._last

    def _learn(self, indices: list[int], costs: list[float]) -> None:
        import optuna

        for index, cost in zip(indices, costs, strict=True):
            trial = self._open.pop(index, None)
            if trial is not None and math.isfinite(cost):
                self._study.tell(trial, cost)
            elif trial is not None:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
