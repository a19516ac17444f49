"""Exhaustive search: all points in the order of the space."""

from __future__ import annotations

from itertools import count as count_from
from itertools import islice

from vdla.compiler.tune.searches.search import SpaceSearch


class ExhaustiveSearch(SpaceSearch):
    """Takes the points in order; its best is the optimum, once it has all."""

    name = "exhaustive"
    _next = 0

    def _choose(self, count: int) -> list[int]:
        left = (index for index in count_from(self._next) if index not in self.taken)
        chosen = list(islice(left, count))
        self._next = chosen[-1] + 1
        return chosen
