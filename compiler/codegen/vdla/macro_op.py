"""Macro-ops: machine instructions on named on-chip tiles, what lowering gives to the back half of the compiler.

An instruction has zero bases here; each base is a tile and an offset, counted in the unit that its field is indexed in
(`field_unit`): mostly entries, but a VECTOR reads inputs and weights as vectors, and a RAW result fills some entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.support.errors import Error


class BuildError(Error, ValueError):
    """Macro-ops that break their own rules: a touch outside a tile, a tensor that is not there."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A range of `entries` entries of one on-chip buffer, somewhere; `ident` tells tiles of one name apart.

    A tile lives from its first to its last use in program order. The same tile may be filled many times; a new tile
    for each fill (or for each virtual thread) lets the fills overlap.
    """

    name: str
    buffer: isa.Buffer
    entries: int
    ident: int = 0

    def __str__(self) -> str:
        return f"{self.name}#{self.ident}" if self.ident else self.name


Base = tuple[Tile, int]
ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class MacroOp:
    """An instruction whose on-chip bases are (tile, offset) and whose micro-ops, relative to them, are a tuple.

    `instruction` is an `isa` instruction with zero bases, zero `uop_begin` and `uop_end`, and no token bits.
    `bases` names the tile of every base field the instruction uses: `sram` of LOAD and STORE; `acc src wgt out scl` of
    GEMM and VECTOR. `tensor` is what the `dram` of a LOAD or STORE is relative to; `source` a line of the schedule.
    """

    instruction: isa.Instruction
    bases: Mapping[str, Base] = field(default_factory=dict)
    uops: tuple[isa.MicroOp, ...] = ()
    tensor: str | None = None
    source: int = -1

    def tiles(self) -> tuple[Tile, ...]:
        """The tiles this operation touches, each once."""
        return tuple(dict.fromkeys(tile for tile, _ in self.bases.values()))


def op_name(index: int, op: MacroOp, lines: Sequence[str] = ()) -> str:
    """How an error names an operation: its number, its opcode and the line of the schedule it comes from."""
    line = f", {lines[op.source].strip()}" if 0 <= op.source < len(lines) else ""
    return f"operation {index} ({isa.opcode_of(op.instruction).name}{line})"


def field_unit(config: Config, instruction: isa.Instruction, name: str) -> Fraction:
    """Buffer entries in one step of the index that base field `name` counts in."""
    if name == "wgt" and isinstance(instruction, isa.Vector):
        return Fraction(1, config.block_in)
    if name == "src" and isinstance(instruction, isa.Vector) and instruction.source == isa.Source.INP:
        return Fraction(config.block_out, config.block_in)
    if name == "out" and isinstance(instruction, isa.Gemm | isa.Vector) and instruction.emit == isa.Emit.RAW:
        return Fraction(config.acc_bits, config.out_bits)
    return ONE
