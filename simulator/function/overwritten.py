# SPDX-License-Identifier: Apache-2.0
"""What an instruction may overwrite, as views of buffers, private states and DRAM.

They are ranges from the first entry that it may write to the last, so that copies of them, taken
before the instruction and written back after it, undo it.
"""

from __future__ import annotations

from vdla.hardware.isa import COL, Buffer, Emit, Opcode, plug_in_of
from vdla.simulator.function import kernels
from vdla.simulator.function.buffers import Row
from vdla.simulator.function.execute import Engine
from vdla.support.arrays import Array

_OPCODE, _BEGIN, _END = COL["opcode"], COL["uop_begin"], COL["uop_end"]


def overwritten(engine: Engine, index: int) -> list[Array]:
    """The views for an instruction that stays within its buffers, before it is executed."""
    row = engine.columns[index].tolist()
    match row[_OPCODE]:
        case Opcode.LOAD:
            return engine.buffers.loaded(row)
        case Opcode.STORE:
            return [engine.buffers.stored(row)]
        case Opcode.SYNC:
            return []
        case _:
            return _computed(engine, index, row)


def _computed(engine: Engine, index: int, row: Row) -> list[Array]:
    buffers, plug_in = engine.buffers, plug_in_of(engine.config, row)
    last = kernels.extents(engine.columns[index], buffers.uop[row[_BEGIN] : row[_END]])[0]
    first, count = row[kernels.ACC], int(last) + 1 - row[kernels.ACC]
    sums = Buffer.INP if plug_in is not None and plug_in.writes_inputs else Buffer.ACC
    views = buffers.views(sums, first, count)
    if row[kernels.EMIT]:
        results = buffers.raw if row[kernels.EMIT] == Emit.RAW else buffers.out
        views.append(results[row[kernels.OUT] :][:count])
    if plug_in is not None:
        views += [buffers.states[state] for state in plug_in.written_states]
    return views
