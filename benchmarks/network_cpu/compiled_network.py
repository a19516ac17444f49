"""A model that the toolkit compiled for this CPU, called on one image."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.network.compile_network import compile_network

Array = NDArray[Any]


class CompiledNetwork:
    """A model of one input and one output; `compile_seconds` are those of the clock."""

    def __init__(self, model: bytes, image: Array) -> None:
        start = time.perf_counter()
        self._model = compile_network(model)
        self.compile_seconds = time.perf_counter() - start
        self._image = image

    def __call__(self) -> Array:
        """The output for the image."""
        return np.asarray(self._model(self._image))
