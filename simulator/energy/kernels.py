# SPDX-License-Identifier: Apache-2.0
"""The micro-ops of compute instructions that start and that finish a sum.

They are in the program's constants, so that no run is needed. A compute instruction sees what the
loads of micro-ops before it, in the same unit, have put into the buffer.
"""

from __future__ import annotations

import numpy as np

from vdla.hardware.isa import COL, EXTENSION, UOP_COLUMNS, Buffer, Opcode
from vdla.hardware.program import Program
from vdla.simulator.timing.vector_stalls import load_uops
from vdla.support.arrays import Ints

LOOPED = (Opcode.GEMM, Opcode.VECTOR, EXTENSION)
_FLAGS = [UOP_COLUMNS.index("first"), UOP_COLUMNS.index("last")]


def starts_and_ends(program: Program) -> tuple[Ints, Ints]:
    """Of each instruction, the micro-ops marked `first` and those marked `last`; 0 without any."""
    columns = program.columns
    opcode, buffer = columns[:, COL["opcode"]], columns[:, COL["buffer"]]
    counts = np.zeros((len(columns), 2), np.int64)
    looped = np.isin(opcode, LOOPED)
    loads = np.flatnonzero((opcode == Opcode.LOAD) & (buffer == Buffer.UOP))
    uops = np.zeros((program.config.uop_depth, len(UOP_COLUMNS)), np.int64)
    begins = [0, *loads.tolist()]
    for begin, end in zip(begins, [*begins[1:], len(columns)], strict=True):
        if begin in loads:
            load_uops(program, columns[begin], int(program.tensor_of[begin]), uops)
        rows = begin + np.flatnonzero(looped[begin:end])
        before = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(uops[:, _FLAGS] > 0, axis=0)])
        counts[rows] = before[columns[rows, COL["uop_end"]]] - before[columns[rows, COL["uop_begin"]]]
    return counts[:, 0], counts[:, 1]
