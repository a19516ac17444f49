# SPDX-License-Identifier: Apache-2.0
"""The accesses of every instruction in program order, and findings about fields that leave their
bounds.

The contents of the micro-op buffer are known here: only constants are loaded into it, by compute,
which is also its only reader, in program order. So are the written rows of private states, which
compute alone reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from vdla.hardware.config import Buffer
from vdla.hardware.isa import (
    COL,
    EXTENSION,
    UOP_COLUMNS,
    BufferAccess,
    Footprints,
    IsaError,
    Opcode,
    PlugInState,
    Row,
    UopOffsets,
    Where,
    check_uops,
)
from vdla.hardware.program import WRITABLE_ROLES, Program
from vdla.simulator.verify.naming import executing_unit, instruction_name, schedule_lines
from vdla.simulator.verify.verdict import Finding, Kind, Range
from vdla.support.arrays import Bools, Ints

_OPCODE, _UNIT, _BUFFER = COL["opcode"], COL["unit"], COL["buffer"]
_BEGIN, _END = COL["uop_begin"], COL["uop_end"]


@dataclass(slots=True)
class ProgramAccesses:
    """The accesses of each instruction, as (tensor or -1 for a buffer, access).

    An instruction with a finding has none.
    """

    accesses: list[list[tuple[int, BufferAccess]]]
    findings: list[Finding] = field(default_factory=list)


def program_accesses(program: Program) -> ProgramAccesses:
    """The accesses of all instructions, and the findings about their bounds."""
    walk = AccessWalk(program)
    return ProgramAccesses(
        [walk.visit(index, row) for index, row in enumerate(program.columns.tolist())], walk.findings
    )


class AccessWalk:
    """A walk in program order, which follows the contents of the micro-op buffer."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.config = program.config
        self.footprints = Footprints(program.config)
        self.findings: list[Finding] = []
        self.micro_ops = _MicroOps(program)
        self.written: dict[PlugInState, Bools] = {}

    def visit(self, index: int, row: Row) -> list[tuple[int, BufferAccess]]:
        """The accesses of an instruction, none if it has a finding."""
        problems = self.problems(index, row)
        self.findings += problems
        if problems:
            return []
        self.findings += self._visit_states(index, row)
        accesses = [(-1, access) for access in self.footprints.accesses(row, self.kernel(row))]
        return self._in_dram(index, row) + accesses

    def problems(self, index: int, row: Row) -> list[Finding]:
        """The findings about an instruction; a LOAD of micro-ops is executed."""
        return list(self._problems(index, row))

    def kernel(self, row: Row) -> UopOffsets | None:
        """The micro-ops of a compute instruction that has some."""
        return self.micro_ops.kernel(row[_BEGIN], row[_END]) if _looped(row) else None

    def _in_dram(self, index: int, row: Row) -> list[tuple[int, BufferAccess]]:
        if not _moves_data(row):
            return []
        tensor, beats = self.beats(int(self.program.tensor_of[index]), row)
        return [(tensor, BufferAccess("dram", None, row[_OPCODE] == Opcode.STORE, beats))]

    def beats(self, tensor: int, row: Row) -> tuple[int, Where]:
        """The tensor and the beats of it that an instruction may access.

        A part may lie anywhere in its whole, so that what accesses it may access all beats of that.
        """
        whole = self.program.whole_of(tensor)
        if whole == tensor:
            return tensor, self.footprints.beats(row)
        return whole, slice(0, self.program.tensors[whole].nbytes // self.config.axi_bytes)

    # --- private state

    def _visit_states(self, index: int, row: Row) -> Iterator[Finding]:
        """The findings about unwritten rows that are read; marks the rows that are written."""
        for access in self.footprints.state_accesses(row, self.kernel(row)):
            written = self.written.setdefault(access.state, np.zeros(access.state.rows, np.bool_))
            if access.writes:
                written[access.where] = True
            elif not written[access.where].all():
                place = _first_rows(access.state, access.where, written)
                text = f"{place} must be written before it is read, got nothing"
                yield self._finding(Kind.UNINITIALISED, index, text, (place,))

    # --- findings

    def _problems(self, index: int, row: Row) -> Iterator[Finding]:
        if _looped(row):
            problem = self._kernel_problem(index, row)
            if problem is not None:
                yield problem
                return
        kernel = self.kernel(row)
        on_chip = [self._bounds(index, str(excess)) for excess in self.footprints.excess(row, kernel)]
        in_dram = list(self._dram_problems(index, row))
        yield from on_chip + in_dram
        if row[_OPCODE] == Opcode.LOAD and row[_BUFFER] == Buffer.UOP:
            yield from self._load_micro_ops(index, row, bool(on_chip or in_dram))

    def _bounds(self, index: int, text: str) -> Finding:
        return self._finding(Kind.BOUNDS, index, text)

    def _finding(self, kind: Kind, index: int, text: str, ranges: tuple[Range, ...] = ()) -> Finding:
        unit = executing_unit(self.program, index).label
        where = instruction_name(self.program, index)
        lines = schedule_lines(self.program, index)
        return Finding(
            kind=kind, message=f"{where}: {text}", instructions=(index,), units=(unit,), ranges=ranges, schedule=lines
        )

    def _kernel_problem(self, index: int, row: Row) -> Finding | None:
        excess = self.footprints.kernel_excess(row)
        if excess is not None:
            return self._bounds(index, str(excess))
        missing = self.micro_ops.first_missing(row[_BEGIN], row[_END])
        if missing is None:
            return None
        text = f"micro-op {missing} must be loaded before it is used, got nothing"
        return self._finding(Kind.UNINITIALISED, index, text, (Range("uop", missing, missing),))

    def _dram_problems(self, index: int, row: Row) -> Iterator[Finding]:
        if not _moves_data(row):
            return
        number = int(self.program.tensor_of[index])
        if number < 0:
            yield self._bounds(index, "dram must be relative to a tensor, got none")
            return
        tensor = self.program.tensors[number]
        if row[_OPCODE] == Opcode.STORE and tensor.role not in WRITABLE_ROLES:
            roles = f"{', '.join(WRITABLE_ROLES[:-1])} or {WRITABLE_ROLES[-1]}"
            yield self._bounds(index, f"tensor must have role {roles} to be written, got {tensor.role} {tensor.name}")
        excess = self.footprints.dram_excess(row, tensor.nbytes // self.config.axi_bytes, tensor.name)
        if excess is not None:
            yield self._bounds(index, str(excess))

    def _load_micro_ops(self, index: int, row: Row, bad: bool) -> Iterator[Finding]:
        if bad:
            self.micro_ops.forget(row)
            return
        tensor = self.program.tensors[int(self.program.tensor_of[index])]
        if tensor.role != "constant":
            self.micro_ops.forget(row)
            yield self._bounds(index, f"micro-ops must come from a constant, got {tensor.role} {tensor.name}")
            return
        try:
            self.micro_ops.load(row, tensor.data or b"")
        except IsaError as error:
            self.micro_ops.forget(row)
            yield self._finding(Kind.ENCODING, index, f"micro-ops of tensor {tensor.name}: {error}")


def _first_rows(state: PlugInState, where: Where, written: Bools) -> Range:
    """The first unwritten row that is read, and those that follow it."""
    read = np.arange(where.start, where.stop) if isinstance(where, slice) else where
    rows = read[~written[read]]
    count = int(np.append(np.diff(rows) != 1, True).argmax())
    return Range(state.label, int(rows[0]), int(rows[count]))


class _MicroOps:
    """The contents of the micro-op buffer, and the kernels in it."""

    def __init__(self, program: Program) -> None:
        self.config = program.config
        self.content = np.zeros((self.config.uop_depth, len(UOP_COLUMNS)), np.int64)
        self.known = np.zeros(self.config.uop_depth, np.bool_)
        self.kernels: dict[tuple[int, int], UopOffsets] = {}

    def kernel(self, begin: int, end: int) -> UopOffsets:
        key = (begin, end)
        if key not in self.kernels:
            self.kernels[key] = UopOffsets(self.content[begin:end].copy())
        return self.kernels[key]

    def first_missing(self, begin: int, end: int) -> int | None:
        known = self.known[begin:end]
        return None if known.all() else begin + int(known.argmin())

    def load(self, row: Row, data: bytes) -> None:
        """Execute a LOAD from a constant; IsaError for bits outside of a micro-op's fields."""
        width = self.config.uop_entry_bytes
        raw = np.frombuffer(data, np.uint8)[: len(data) // self.config.axi_bytes * self.config.axi_bytes]
        rows = _rows(row, width // self.config.axi_bytes)
        table = raw.reshape(-1, self.config.axi_bytes)[rows].reshape(-1, width)
        self.content[self._entries(row)] = check_uops(self.config, table)
        self.known[self._entries(row)] = True
        self.kernels = {}

    def forget(self, row: Row) -> None:
        """Mark the entries that a LOAD writes as unknown."""
        self.known[self._entries(row)] = False

    def _entries(self, row: Row) -> slice:
        count = row[COL["z_size"]] * row[COL["y_size"]] * row[COL["x_size"]]
        return slice(row[COL["sram"]], row[COL["sram"]] + count)


def _rows(row: Row, entry_beats: int) -> Ints:
    """The beats of a LOAD in entry order, with repeats."""
    z = np.arange(row[COL["z_size"]])[:, None, None] * row[COL["z_stride"]]
    y = np.arange(row[COL["y_size"]])[:, None] * row[COL["y_stride"]]
    return np.asarray((row[COL["dram"]] + z + y + np.arange(row[COL["x_size"]] * entry_beats)).ravel(), np.int64)


def _moves_data(row: Row) -> bool:
    """Whether an instruction accesses DRAM: a LOAD of padding alone does not."""
    return row[_OPCODE] in (Opcode.LOAD, Opcode.STORE) and row[COL["x_size"]] > 0 and row[COL["y_size"]] > 0


def _looped(row: Row) -> bool:
    return row[_OPCODE] in (Opcode.GEMM, Opcode.VECTOR, EXTENSION)
