# SPDX-License-Identifier: Apache-2.0
"""The simulator's error, and the checks that raise it."""

from __future__ import annotations

from os import PathLike

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, EXTENSION, EXTENSION_COLUMN, Opcode
from vdla.hardware.program import Program
from vdla.support.arrays import Ints
from vdla.support.errors import Error


class SimulationError(Error, ValueError):
    """A program that cannot be simulated; the message names the place, the rule and the value."""


def require_program(where: str, program: object, config: object = None) -> None:
    """SimulationError unless `program` is a Program and `config` a Config or None."""
    if not isinstance(program, Program):
        raise SimulationError(f"{where}: program must be a Program, got {_named(program)}")
    if config is not None and not isinstance(config, Config):
        raise SimulationError(f"{where}: config must be a Config, got {type(config).__name__}")


def _named(value: object) -> str:
    """What was given in place of a program, and how to go on."""
    if isinstance(value, str | PathLike):
        return f'the path {value} (vdla.load("{value}") reads it)'
    kind = type(value).__name__
    return f"a {kind} (model.run(inputs) runs a compiled network)" if kind == "Model" else kind


def name_of(columns: Ints, index: int) -> str:
    """`instruction 3 (GEMM)`: how messages name an instruction."""
    opcode = int(columns[index, COL["opcode"]])
    names = {known.value: known.name for known in Opcode}
    if opcode == EXTENSION and columns.shape[1] > EXTENSION_COLUMN:
        names[EXTENSION] = f"extension {columns[index, EXTENSION_COLUMN]}"
    return f"instruction {index} ({names.get(opcode, f'opcode {opcode}')})"


class Escape(Exception):
    """An index beyond a buffer or DRAM; re-raised with the instruction's name."""


def require_below(what: str, index: int, size: int) -> None:
    """Escape unless `index` is below `size`."""
    if index >= size:
        raise Escape(f"{what} must be below {size}, got {index}")
