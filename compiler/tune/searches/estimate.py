"""The estimate's order: the lowest first. What a learned model has to beat."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from vdla.compiler.tune.searches.search import SpaceSearch, ranked_sample

_MOST = 1 << 20


class EstimateSearch(SpaceSearch):
    """Takes points from the lowest estimate up; of a very large space, first those of a sample."""

    name = "estimate"

    @cached_property
    def _order(self) -> Iterator[int]:
        return iter(ranked_sample(self, _MOST).tolist())

    def _choose(self, count: int) -> list[int]:
        return self._new(self._order, count)
