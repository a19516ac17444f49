"""Random search: points drawn evenly, none twice."""

from __future__ import annotations

from vdla.compiler.tune.searches.search import SpaceSearch


class RandomSearch(SpaceSearch):
    """Draws points at random."""

    name = "random"

    def _choose(self, count: int) -> list[int]:
        return self._random(count)
