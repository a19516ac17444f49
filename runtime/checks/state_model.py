"""The private states of a unit as arrays: which rows are written, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.ir import storage_dtype
from vdla.hardware.isa import PlugIn, PlugInStage, PlugInUnit, StatePort

Array = NDArray[Any]


class StateModel:
    """The states of a unit; rows are undefined until they are written."""

    def __init__(self, unit: PlugInUnit) -> None:
        states = {port.state.name: port.state for part in unit.parts for port in part.states}
        self._rows = {
            name: np.zeros((state.rows, *state.shape), storage_dtype(state.dtype)) for name, state in states.items()
        }
        self._written = {name: np.zeros(state.rows, np.bool_) for name, state in states.items()}

    def written(self, port: StatePort) -> NDArray[np.bool_]:
        """Which rows of the state of a port are defined."""
        return self._written[port.state.name]

    def defined(self, part: PlugIn | PlugInStage) -> bool:
        """Whether a part can find rows that it may read."""
        reads = [port for port in part.states if port.operand is not None]
        return all(self.written(port).all() if port.whole else self.written(port).any() for port in reads)

    def value(self, port: StatePort, rows: Mapping[str, int]) -> Array:
        """What a part reads: the row of `rows`, or all."""
        held = self._rows[port.state.name]
        return held.copy() if port.whole else held[rows.get(port.state.name, 0)].copy()

    def write(self, port: StatePort, rows: Mapping[str, int], value: Array) -> None:
        """A new value of the row of `rows`."""
        row = rows.get(port.state.name, 0)
        self._rows[port.state.name][row] = value
        self._written[port.state.name][row] = True
