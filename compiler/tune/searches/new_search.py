# SPDX-License-Identifier: Apache-2.0
"""Searches by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.compiler.tune.cost_model import Group
from vdla.compiler.tune.searches.annealing import AnnealingSearch, BlindSearch
from vdla.compiler.tune.searches.library import NevergradSearch, OptunaSearch
from vdla.compiler.tune.searches.search import (
    EstimateSearch,
    ExhaustiveSearch,
    GeneticSearch,
    GridSearch,
    RandomSearch,
    SpaceSearch,
)
from vdla.compiler.tune.space import TuneError
from vdla.compiler.tune.task import TuningTask
from vdla.support.suggest import did_you_mean

SEARCHES: Mapping[str, type[SpaceSearch]] = {
    search.name: search
    for search in (
        AnnealingSearch,
        BlindSearch,
        EstimateSearch,
        RandomSearch,
        GeneticSearch,
        GridSearch,
        ExhaustiveSearch,
        OptunaSearch,
        NevergradSearch,
    )
}
DEFAULT_SEARCH = AnnealingSearch.name


def new_search(name: str, task: TuningTask, seed: int = 0, prior: Sequence[Group] = ()) -> SpaceSearch:
    """The search called `name`. `prior` has measured points of other tasks, a group each, whose
    features have the task's `feature_names`; only searches with a model use it.

    Raises:
        TuneError: the name is unknown, or a library that the search needs is missing.
    """
    if name not in SEARCHES:
        hint = did_you_mean(name, SEARCHES)
        raise TuneError(f"tune {task.name}: search must be one of {', '.join(SEARCHES)}, got {name}{hint}")
    search = SEARCHES[name]
    return search(task, seed, prior) if issubclass(search, AnnealingSearch) else search(task, seed)
