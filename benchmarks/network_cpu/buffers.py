"""Memory of the results of layers, reused as soon as no layer reads them any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 64


class ResultBuffers:
    """Arrays by tensor name; `until` says which layer reads each one last."""

    def __init__(self, until: Mapping[str, int]) -> None:
        self._until = until
        self._free: list[NDArray[np.uint8]] = []
        self._live: dict[str, NDArray[np.uint8]] = {}

    def take(self, name: str, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """An array for a result."""
        size = prod(shape) * np.dtype(dtype).itemsize
        fitting = [memory for memory in self._free if memory.nbytes >= size + _ALIGNMENT]
        memory = min(fitting, key=lambda m: m.nbytes) if fitting else np.zeros(size + _ALIGNMENT, np.uint8)
        self._free = [other for other in self._free if other is not memory]
        self._live[name] = memory
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + size].view(dtype).reshape(shape)

    def release(self, number: int) -> None:
        """Give back what layer `number` was the last to read."""
        for name in [name for name in self._live if self._until.get(name) == number]:
            self._free.append(self._live.pop(name))
