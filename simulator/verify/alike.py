"""Classes of instructions that are alike: equal but for their bases and token bits.

The accesses of a class have one shape, and its bounds follow from the largest value of each base.
"""

from __future__ import annotations

import numpy as np

from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import Program
from vdla.support.arrays import Ints

BASES = ("sram", "dram", "acc", "src", "wgt", "out", "scl")
_TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
_FREE = [COL[name] for name in (*BASES, *_TOKENS)]


def classes(program: Program) -> list[Ints]:
    """The instructions of each class in order, the classes in order of their first instruction.

    A class has one tensor, and one content of the micro-op buffer: no LOAD of micro-ops lies
    between its instructions, and each such LOAD is a class of its own.
    """
    table = program.columns
    loads = (table[:, COL["opcode"]] == Opcode.LOAD) & (table[:, COL["buffer"]] == Buffer.UOP)
    epoch = 2 * np.cumsum(loads) - loads  # odd for the LOAD itself
    number = _numbers(np.column_stack([np.delete(table, _FREE, axis=1), program.tensor_of, epoch]))
    order = np.argsort(number, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return sorted(filter(len, groups), key=lambda group: int(group[0]))


def _numbers(rows: Ints) -> Ints:
    """Equal numbers for equal rows, by a checksum that is compared where it is equal."""
    weights = np.random.default_rng(0).integers(1, 1 << 62, rows.shape[1]) | 1
    _, first, number = np.unique(rows @ weights, return_index=True, return_inverse=True)
    if (rows == rows[first[number]]).all():
        return np.asarray(number, np.int64)
    _, number = np.unique(rows, axis=0, return_inverse=True)
    return np.asarray(number, np.int64).reshape(-1)
