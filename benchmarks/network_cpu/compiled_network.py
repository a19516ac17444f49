"""A model that the toolkit compiled for this CPU, called on one image."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.network import compile_network

Array = NDArray[Any]


class CompiledNetwork:
    """A model of one input and one output; `compile_seconds` counts all processes."""

    def __init__(self, model: bytes, image: Array) -> None:
        start = time.perf_counter()
        self._model = compile_network(model)
        self.compile_seconds = time.perf_counter() - start
        (source,), (self._output,) = self._model.inputs, self._model.outputs
        self._inputs = {source: image}

    def __call__(self) -> None:
        """One run."""
        self._model.run(self._inputs)

    @property
    def result(self) -> Array:
        """The output of a run."""
        return np.asarray(self._model.run(self._inputs).outputs[self._output])
