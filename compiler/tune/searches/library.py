# SPDX-License-Identifier: Apache-2.0
"""Searches by libraries: baselines, whose suggestions are made legal and new."""

from __future__ import annotations

import math
from abc import abstractmethod
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from vdla.compiler.tune.searches.search import SpaceSearch
from vdla.compiler.tune.space import TuneError
from vdla.compiler.tune.task import TuningTask

_TRIES = 8  # suggestions for each place of a batch, before one is mutated until it is new


def require_library(name: str) -> None:
    """TuneError unless a library of the extra `tune` is installed."""
    if find_spec(name) is None:
        raise TuneError(f'tune: {name} must be installed for this search, got none (pip install "vdla[tune]")')


class LibrarySearch(SpaceSearch):
    """Takes positions of values from a library; refuses those that are not legal or not new."""

    library: ClassVar[str]

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        require_library(self.library)
        super().__init__(task, seed)
        self._open: dict[int, Any] = {}  # suggestions whose costs will be told

    @abstractmethod
    def _suggest(self) -> tuple[Any, list[int]]:
        """A suggestion of the library, and the position of a value for each knob."""

    @abstractmethod
    def _report(self, suggestion: Any, cost: float | None) -> None:  # noqa: ANN401  of the library
        """The cost of a suggestion; None if it failed or is not a point to measure."""

    def _choose(self, count: int) -> list[int]:
        chosen: list[int] = []
        for _ in range(_TRIES * count):
            suggestion, digits = self._suggest()
            index = int(self.task.space.indices(np.array([digits], np.int64))[0])
            if index < 0 or index in self.used_indices or index in chosen:
                self._report(suggestion, None)
                continue
            self._open[index] = suggestion
            chosen.append(index)
            if len(chosen) == count:
                break
        return [*chosen, *self._random(count - len(chosen), chosen)]

    def _learn(self, indices: list[int], costs: list[float]) -> None:
        for index, cost in zip(indices, costs, strict=True):
            if index in self._open:
                self._report(self._open.pop(index), cost if math.isfinite(cost) else None)


class OptunaSearch(LibrarySearch):
    """Suggestions of Optuna's default sampler, a tree-structured Parzen estimator."""

    name = "optuna"
    library = "optuna"

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        super().__init__(task, seed)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._failed = optuna.trial.TrialState.FAIL
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed))
        self._values: dict[str, Any] = {
            knob.name: optuna.distributions.IntDistribution(0, len(knob.values) - 1)
            if knob.is_ordered
            else optuna.distributions.CategoricalDistribution(tuple(range(len(knob.values))))
            for knob in task.space.knobs
        }

    def _suggest(self) -> tuple[Any, list[int]]:
        trial = self._study.ask(self._values)
        return trial, [int(trial.params[name]) for name in self._values]

    def _report(self, suggestion: Any, cost: float | None) -> None:  # noqa: ANN401
        self._study.tell(suggestion, cost, state=self._failed if cost is None else None)


class NevergradSearch(LibrarySearch):
    """Suggestions of Nevergrad's discrete (1+1) evolution strategy."""

    name = "nevergrad"
    library = "nevergrad"

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        super().__init__(task, seed)
        import nevergrad

        kinds = {True: nevergrad.p.TransitionChoice, False: nevergrad.p.Choice}
        choices = {knob.name: kinds[knob.is_ordered](list(range(len(knob.values)))) for knob in task.space.knobs}
        parameters = nevergrad.p.Dict(**choices)
        parameters.random_state.seed(self.seed)
        self._optimizer = nevergrad.optimizers.registry["DiscreteOnePlusOne"](parameters, budget=task.space.size)

    def _suggest(self) -> tuple[Any, list[int]]:
        candidate = self._optimizer.ask()
        return candidate, [int(candidate.value[knob.name]) for knob in self.task.space.knobs]

    def _report(self, suggestion: Any, cost: float | None) -> None:  # noqa: ANN401
        if cost is not None:  # else the next suggestion is another mutation of the best
            self._optimizer.tell(suggestion, cost)
