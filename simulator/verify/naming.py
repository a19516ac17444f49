"""How findings name things: instructions, units, queues, schedule lines."""

from __future__ import annotations

from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, Opcode, Unit, units
from vdla.hardware.program import Program

QUEUES: tuple[str, ...] = tuple(queue.name for queue in units.QUEUES)
"""The token queues in the order of their numbers; the same names as the simulator's counters."""

# (queue, unit that pushes, its column, unit that pops, its column)
LINKS = tuple((number, q.producer, q.push, q.consumer, q.pop) for number, q in enumerate(units.QUEUES))


def unit_name(unit: int) -> str:
    """load, compute or store."""
    return Unit(unit).name.lower()


def instruction_name(program: Program, index: int) -> str:
    """`instruction 3 (LOAD inp in load)`."""
    row = program.columns[index]
    opcode = Opcode(int(row[COL["opcode"]]))
    what = f"{opcode.name} {Buffer(int(row[COL['buffer']])).name.lower()}" if opcode == Opcode.LOAD else opcode.name
    return f"instruction {index} ({what} in {unit_name(int(row[COL['unit']]))})"


def schedule_lines(program: Program, *instructions: int) -> tuple[str, ...]:
    """The schedule lines that these instructions come from, each once."""
    sources = [int(program.source_of[index]) for index in instructions]
    return tuple(dict.fromkeys(program.source_lines[source].strip() for source in sources if source >= 0))
