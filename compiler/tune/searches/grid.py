"""Grid search: points at regular distances in the order of the space, ever closer.

The order of a space is that of its knobs' values, so equal distances spread over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from vdla.compiler.tune.searches.search import SpaceSearch
from vdla.compiler.tune.task import TuningTask


class GridSearch(SpaceSearch):
    """Takes the first point, the middle one, those at quarters, and so on."""

    name = "grid"

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        super().__init__(task, seed)
        self._order = _refined(task.space.size)

    def _choose(self, count: int) -> list[int]:
        fresh = dict.fromkeys(islice((index for index in self._order if index not in self.taken), count))
        return list(fresh)


def _refined(size: int) -> Iterator[int]:
    """0 to `size - 1`, each once: with a step that halves, those that no larger step met."""
    step = 1 << max(0, (size - 1).bit_length())
    yield 0
    while step > 1:
        yield from range(step // 2, size, step)
        step //= 2
