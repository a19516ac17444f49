"""The error of this layer: a program, an array or a machine state that the simulator refuses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import COL, Opcode


class SimulationError(ValueError):
    """What cannot be simulated; the message names the place, the rule and the value."""


def name_of(columns: NDArray[np.int64], index: int) -> str:
    """`instruction 3 (GEMM)`: how messages name an instruction."""
    return f"instruction {index} ({Opcode(int(columns[index, COL['opcode']])).name})"


class Escape(Exception):
    """An index outside of a buffer or of DRAM; who knows the instruction turns it into a SimulationError."""


def require_below(what: str, index: int, size: int) -> None:
    """Escape unless `index` is below `size`."""
    if index >= size:
        raise Escape(f"{what} must be below {size}, got {index}")
