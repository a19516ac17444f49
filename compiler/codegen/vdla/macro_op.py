# SPDX-License-Identifier: Apache-2.0
"""Macro-ops, the interface between lowering and assembly: instructions on on-chip tiles.

The bases of an instruction are zero here. Each base is a tile and an offset in the units of its
field (`field_unit`): entries in general, vectors for the inputs and weights of a VECTOR, several
entries for a RAW result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.support.errors import Error


class BuildError(Error, ValueError):
    """Macro-ops that are invalid: an access outside of a tile, an unknown tensor."""


@dataclass(frozen=True, slots=True)
class BufferTile:
    """`entries` entries of an on-chip buffer, still without an address.

    `ident` distinguishes tiles of one name.

    A tile is live from its first to its last use in program order. It may be filled many times;
    fills of different tiles, as those of different virtual threads, can overlap in time.
    """

    name: str
    buffer: isa.Buffer
    entries: int
    ident: int = 0

    def __str__(self) -> str:
        return f"{self.name}#{self.ident}" if self.ident else self.name


Offset = int | NDArray[np.int64]
"""An integer, or int64[n] where an intrinsic's `lower` describes n operations at once."""
Base = tuple[BufferTile, Offset]
_ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class MacroOp:
    """An instruction with a (tile, offset) for each base, and micro-ops relative to the bases.

    `instruction` is an `isa` instruction with zero bases, zero `uop_begin` and `uop_end`, and no
    token bits. `bases` has every base field that the instruction uses: `sram` of LOAD and STORE;
    `acc src wgt out scl` of GEMM and VECTOR. The `dram` of a LOAD or STORE is relative to `tensor`.
    `source` is a line of the schedule.

    What an intrinsic's `lower` yields for a nest of n iterations stands for n operations: offsets,
    and `dram`, are int64[n] then.
    """

    instruction: isa.Instruction
    bases: Mapping[str, Base] = field(default_factory=dict)
    uops: tuple[isa.MicroOp, ...] = ()
    tensor: str | None = None
    source: int = -1

    def tiles(self) -> tuple[BufferTile, ...]:
        """The tiles that the operation accesses, without duplicates."""
        return tuple(dict.fromkeys(tile for tile, _ in self.bases.values()))


def op_name(index: int, op: MacroOp, lines: Sequence[str] = ()) -> str:
    """The name of an operation in errors: its number, its opcode and its line of the schedule."""
    line = f", {lines[op.source].strip()}" if 0 <= op.source < len(lines) else ""
    return f"operation {index} ({isa.mnemonic_of(type(op.instruction)).upper()}{line})"


def field_unit(config: Config, instruction: isa.Instruction, name: str) -> Fraction:
    """Buffer entries per unit of base field `name`."""
    if name == "out" and getattr(instruction, "emit", isa.Emit.NONE) == isa.Emit.RAW:
        return Fraction(config.acc_bits, config.out_bits)
    ports = isa.instruction_ports(instruction)
    port = dict(ports.indexed).get(name) if ports is not None else None
    if port is None:
        return _ONE
    if port.vector:  # of block_out elements for each row of the batch, or of weights
        return Fraction(1 if port.buffer == isa.Buffer.WGT else config.block_out, config.block_in)
    return Fraction(port.entries)
