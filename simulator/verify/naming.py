# SPDX-License-Identifier: Apache-2.0
"""How findings name instructions and schedule lines."""

from __future__ import annotations

from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, Opcode, Unit, isa_of
from vdla.hardware.program import Program


def executing_unit(program: Program, index: int) -> Unit:
    """The unit that executes an instruction."""
    return Unit(int(program.columns[index, COL["unit"]]))


def instruction_name(program: Program, index: int) -> str:
    """`instruction 3 (LOAD inp in load)`."""
    row = program.columns[index]
    name = isa_of(program.config).format_at(row).name
    what = f"{name} {Buffer(int(row[COL['buffer']])).name.lower()}" if row[COL["opcode"]] == Opcode.LOAD else name
    return f"instruction {index} ({what} in {executing_unit(program, index).label})"


def schedule_lines(program: Program, *instructions: int) -> tuple[str, ...]:
    """The schedule lines of these instructions, without duplicates."""
    sources = [int(program.source_of[index]) for index in instructions]
    return tuple(dict.fromkeys(program.source_lines[source].strip() for source in sources if source >= 0))
