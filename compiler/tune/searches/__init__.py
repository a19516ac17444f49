# SPDX-License-Identifier: Apache-2.0
"""Searches: which points of a space to measure next, one strategy a file.

    search = new_search("annealing", task, seed=0)
    points = search.propose(8)
    search.tell(points, costs)

Annealing on the cost model is the default.
"""

from vdla.compiler.tune.searches.annealing import AnnealingSearch
from vdla.compiler.tune.searches.new_search import DEFAULT_SEARCH, SEARCHES, new_search
from vdla.compiler.tune.searches.search import SpaceSearch

__all__ = ["DEFAULT_SEARCH", "SEARCHES", "AnnealingSearch", "SpaceSearch", "new_search"]
