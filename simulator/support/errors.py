"""The error of this layer: a program, an array or a machine state that the simulator refuses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import Program
from vdla.support.errors import Error


class SimulationError(Error, ValueError):
    """What cannot be simulated; the message names the place, the rule and the value."""


def require_program(where: str, program: object, config: object = None) -> None:
    """Refuse what is no Program, and a machine that is no Config."""
    if not isinstance(program, Program):
        raise SimulationError(f"{where}: program must be a Program, got {type(program).__name__}")
    if config is not None and not isinstance(config, Config):
        raise SimulationError(f"{where}: config must be a Config, got {type(config).__name__}")


def name_of(columns: NDArray[np.int64], index: int) -> str:
    """`instruction 3 (GEMM)`: how messages name an instruction."""
    opcode = int(columns[index, COL["opcode"]])
    names = {known.value: known.name for known in Opcode}
    return f"instruction {index} ({names.get(opcode, f'opcode {opcode}')})"


class Escape(Exception):
    """An index outside of a buffer or of DRAM; who knows the instruction turns it into a SimulationError."""


def require_below(what: str, index: int, size: int) -> None:
    """Escape unless `index` is below `size`."""
    if index >= size:
        raise Escape(f"{what} must be below {size}, got {index}")
