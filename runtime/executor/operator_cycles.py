# SPDX-License-Identifier: Apache-2.0
"""The cost of each operator of a program: the cycles of a run, divided among its operators.

The compute unit decides: a cycle counts for the operator whose instruction it runs or waits for, so
that the cycles of all operators sum to those of the run. Loads of the next operator during the
current one cost nothing, and bytes moved by a channel count for the operator in whose cycles they
are moved: no operator moves more than its cycles allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.isa import COL, COUNTERS, Opcode, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats import UNKNOWN, RunStats, gemm_macs, moved_bytes

Ints = npt.NDArray[Any]
_TRANSFERS = (Opcode.LOAD, Opcode.STORE)
_ROUNDING = 1e-6  # bytes


@dataclass(frozen=True, slots=True)
class OperatorCycles:
    """The cycles of one operator, the bytes of tensors that the channels move in them, what its
    compute unit waited for.

    `macs` are the multiply-accumulates that the matrix unit executes: with those of padded blocks,
    without products with padding that the program leaves out.
    `stalls` has cycles by counter, without those in which the unit was busy; empty where the device
    does not record the waits of single instructions.
    """

    cycles: int
    macs: int
    bytes_read: int
    bytes_written: int
    stalls: dict[str, int]

    @property
    def main_stall(self) -> str | None:
        """The counter with the most cycles; None where the unit never waited."""
        return max(self.stalls, key=self.stalls.__getitem__) if self.stalls else None


def operator_of(program: Program, lines: Sequence[int]) -> Ints:
    """The operator of every instruction; -1 for those of none, such as loads of micro-ops.

    `lines` has the number of source lines of each operator, in the order of the program's.
    """
    of_line = np.repeat(np.arange(len(lines), dtype=np.int32), lines)
    result: Ints = np.append(of_line, np.int32(-1))[program.source_of]
    return result


def operator_cycles(program: Program, stats: RunStats, lines: Sequence[int]) -> tuple[OperatorCycles, ...] | None:
    """The cycles of each operator; None where the device did not record the times."""
    if not lines or len(stats.ends) != len(program) or (stats.ends == UNKNOWN).any():
        return None
    owner = operator_of(program, lines)
    compute = np.flatnonzero(program.columns[:, COL["unit"]] == Unit.COMPUTE)
    owner_of_compute = _filled(owner[compute])
    count = len(lines)
    ends = np.append(stats.ends[compute] + 1, stats.total_cycles)
    owner_of_span = np.append(owner_of_compute, count - 1).astype(np.intp)  # the last results are stored
    cycles = _by_operator(owner_of_span, np.diff(ends, prepend=0), count)
    stalls = np.zeros((count, len(COUNTERS)), np.int64)
    if stats.waits is not None:
        np.add.at(stalls, owner_of_compute, stats.waits[compute])
    stalls[:, COUNTERS.index("busy")] = 0
    opcodes, moved = program.columns[:, COL["opcode"]], moved_bytes(program.config, program.columns)
    rate = program.config.peak_bytes_per_cycle
    transfers = (_moved_before(ends, stats.ends, np.where(opcodes == op, moved, 0), rate) for op in _TRANSFERS)
    read, written = (_by_operator(owner_of_span, np.diff(transfer, prepend=0), count) for transfer in transfers)
    macs = gemm_macs(program.config, program.columns)
    figures = (cycles, _by_operator(owner[owner >= 0], macs[owner >= 0], count), read, written)
    rows = zip(*(transfer.tolist() for transfer in figures), map(_named, stalls), strict=True)
    return tuple(OperatorCycles(*row) for row in rows)


def _named(row: Ints) -> dict[str, int]:
    return {name: int(cycles) for name, cycles in zip(COUNTERS, row, strict=True) if cycles}


def _filled(owner: Ints) -> Ints:
    """Owners of all: an instruction of none counts for the next operator, the last for the last."""
    known = np.flatnonzero(owner >= 0)
    if not len(known):
        return np.zeros_like(owner)
    after = np.searchsorted(known, np.arange(len(owner)))
    filled: Ints = owner[known[np.minimum(after, len(known) - 1)]]
    return filled


def _moved_before(times: Ints, ends: Ints, nbytes: Ints, rate: float) -> Ints:
    """The bytes that a channel has moved before each of some times, which are in order.

    Each transfer is taken to be as late as its end and those behind it allow, at the full rate of
    the channel: so no span of time has more bytes than fit into it.
    """
    order = np.argsort(ends, kind="stable")
    total = np.cumsum(nbytes[order])
    spare = (ends[order] + 1) * rate - total
    late = np.minimum.accumulate(spare[::-1])[::-1]
    finished = (total + late) / rate
    begun = finished - nbytes[order] / rate
    points = np.column_stack([begun, finished]).reshape(-1)
    moved = np.column_stack([total - nbytes[order], total]).reshape(-1)
    result: Ints = np.floor(np.interp(times, points, moved, left=0) + _ROUNDING).astype(np.int64)
    return result


def _by_operator(owner: Ints, values: Ints, count: int) -> Ints:
    """The sums of values by operator."""
    total = np.zeros(count, np.int64)
    np.add.at(total, owner, values)
    return total
