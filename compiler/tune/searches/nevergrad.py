"""Nevergrad's discrete (1+1) evolution strategy, a baseline from a library."""

from __future__ import annotations

import math
from typing import Any

from vdla.compiler.tune.searches.library import LibrarySearch
from vdla.compiler.tune.task import TuningTask


class NevergradSearch(LibrarySearch):
    """Suggestions of Nevergrad's DiscreteOnePlusOne."""

    name = "nevergrad"
    library = "nevergrad"

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        super().__init__(task, seed)
        import nevergrad

        parameters = nevergrad.p.Dict(
            **{
                knob.name: (nevergrad.p.TransitionChoice if knob.is_ordered else nevergrad.p.Choice)(
                    list(range(len(knob.values)))
                )
                for knob in task.space.knobs
            }
        )
        parameters.random_state.seed(self.seed)
        self._optimizer = nevergrad.optimizers.registry["DiscreteOnePlusOne"](parameters, budget=task.space.size)
        self._last: Any = None
        self._open: dict[int, Any] = {}

    def _suggest(self) -> list[int]:
        self._last = self._optimizer.ask()
        return [int(self._last.value[knob.name]) for knob in self.task.space.knobs]

    def _refuse(self) -> None:
        """Nothing to tell: the next suggestion is another mutation of the best."""

    def _accept(self, index: int) -> None:
        self._open[index] = self._last

    def _learn(self, indices: list[int], costs: list[float]) -> None:
        for index, cost in zip(indices, costs, strict=True):
            candidate = self._open.pop(index, None)
            if candidate is not None and math.isfinite(cost):
                self._optimizer.tell(candidate, cost)
