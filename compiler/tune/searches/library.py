"""What searches by a library have in common: suggestions that are made legal and new."""

from __future__ import annotations

from abc import abstractmethod
from importlib.util import find_spec

import numpy as np

from vdla.compiler.tune.errors import TuneError
from vdla.compiler.tune.searches.search import SpaceSearch
from vdla.compiler.tune.task import TuningTask

_TRIES = 8  # suggestions for each place of a batch, before one is mutated until it is new


def require_library(name: str) -> None:
    """TuneError unless a library of the extra `tune` is installed."""
    if find_spec(name) is None:
        raise TuneError(f'tune: {name} must be installed for this search, got none (pip install "vdla[tune]")')


class LibrarySearch(SpaceSearch):
    """Takes positions of values from a library; refuses those that are not legal or not new."""

    library: str

    def __init__(self, task: TuningTask, seed: int = 0) -> None:
        require_library(self.library)
        super().__init__(task, seed)

    @abstractmethod
    def _suggest(self) -> list[int]:
        """The position of a value for each knob; `_refuse` or `_report` follows."""

    @abstractmethod
    def _refuse(self) -> None:
        """The last suggestion is no point to measure."""

    @abstractmethod
    def _accept(self, index: int) -> None:
        """The last suggestion is the point of an index, whose cost will be told."""

    def _choose(self, count: int) -> list[int]:
        chosen: list[int] = []
        for _ in range(_TRIES * count):
            index = int(self.task.space.indices(np.array([self._suggest()], np.int64))[0])
            if index < 0 or index in self.taken or index in chosen:
                self._refuse()
                continue
            self._accept(index)
            chosen.append(index)
            if len(chosen) == count:
                break
        return [*chosen, *self._random(count - len(chosen), chosen)]
