# SPDX-License-Identifier: Apache-2.0
"""Checks of addressed macro-ops: every access must lie inside the operation's tiles and tensor.

The footprints come from the instruction set and are exact to the entry and the beat. One operation
at a time, to say what is wrong; `form_touches` finds out for all of a form whether something is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from vdla.compiler.codegen.vdla.dependences import SpaceTouches, Touch, TouchList
from vdla.compiler.codegen.vdla.macro_op import BufferTile, BuildError, MacroOp, op_name
from vdla.compiler.codegen.vdla.placed import NO_OP, ROW_FIELDS, Ints, Placed, fields_of
from vdla.compiler.codegen.vdla.uops import KernelOffsets
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, BufferAccess, Footprints, Load, Row, Store, UopOffsets, Where, footprint
from vdla.hardware.program import ProgramTensor


class MacroOpChecker:
    """Checks the operations of a program, with tiles at `addresses`, and collects touches."""

    def __init__(
        self,
        config: Config,
        ops: Sequence[MacroOp],
        addresses: Mapping[BufferTile, int],
        tensors: Sequence[ProgramTensor],
    ) -> None:
        self.config = config
        self.addresses = addresses
        self.dram = DramSpaces(config, ops, tensors)
        self.footprints = footprint.Footprints(config)
        self.kernels = KernelOffsets(config)

    def touches(self, index: int, op: MacroOp, row: Row, lines: Sequence[str] = ()) -> tuple[Touch, ...]:
        """The touches of operation `index`; `row` has the columns of its instruction.

        Raises:
            BuildError: an access outside of a tile or of the tensor.
        """
        where = op_name(index, op, lines)
        kernel = self.kernels.of(op.uops)
        for excess in self.footprints.excess(row, kernel):
            raise BuildError(f"{where}: {excess}")
        on_chip = [a for a in self.footprints.accesses(row, kernel) if a.buffer != Buffer.UOP]
        for access in on_chip:
            self._check_inside(where, op, access)
        held = (Touch(a.state, a.where, a.writes) for a in self.footprints.state_accesses(row, kernel))
        return (*(Touch(a.buffer, a.where, a.writes) for a in on_chip), *held, *self._in_dram(where, op, row))

    def _check_inside(self, where: str, op: MacroOp, access: BufferAccess) -> None:
        tile = op.bases[access.field][0] if access.field in op.bases else None
        if tile is None or tile.buffer != access.buffer:
            wanted, got = Buffer(access.buffer or 0).name, tile and tile.buffer.name
            raise BuildError(f"{where}: {access.field} must name a tile of {wanted}, got {got}")
        low = self.addresses[tile]
        first, end = bounds(access.where, low)
        if first < low or end > low + tile.entries:
            rule = f"{access.field} in tile {tile} must touch 0 to {tile.entries - 1}"
            raise BuildError(f"{where}: {rule}, got {first - low} to {end - 1 - low}")

    def _in_dram(self, where: str, op: MacroOp, row: Row) -> Iterator[Touch]:
        if op.tensor is None:
            return
        excess = self.footprints.dram_excess(row, self.dram.beats[op.tensor], op.tensor)
        if excess is not None:
            raise BuildError(f"{where}: {excess}")
        if self.dram.is_shared(op.tensor):
            space, beats = self.dram.place(op.tensor)
            places = self.footprints.beats(row) if beats is None else beats
            yield Touch(space, places, isinstance(op.instruction, Store))


class DramSpaces:
    """The tensors of operations in DRAM: their `beats`, and the spaces in which dependences arise;
    a part may lie anywhere in its whole.
    """

    def __init__(self, config: Config, ops: Sequence[MacroOp], tensors: Sequence[ProgramTensor]) -> None:
        self.beats = {tensor.name: tensor.nbytes // config.axi_bytes for tensor in tensors}
        self._wholes = {tensor.name: tensor.whole for tensor in tensors if tensor.whole}
        self._shared = shared_tensors(ops, self._wholes)

    def _whole(self, tensor: str) -> str:
        return self._wholes.get(tensor, tensor)

    def is_shared(self, tensor: str) -> bool:
        """Whether accesses to a tensor cause dependences."""
        return self._whole(tensor) in self._shared

    def place(self, tensor: str) -> tuple[Hashable, slice | None]:
        """The space of a tensor; of a part, all beats that it may touch there."""
        whole = self._whole(tensor)
        return ("dram", whole), None if whole == tensor else slice(0, self.beats[whole])


def shared_tensors(ops: Sequence[MacroOp], wholes: Mapping[str, str] = MappingProxyType({})) -> set[str]:
    """The tensors that are both loaded and stored; only they cause dependences through DRAM.

    Those that are parts are their `wholes`.
    """
    moves = [(op.instruction, wholes.get(op.tensor, op.tensor)) for op in ops if op.tensor is not None]
    loaded = {name for instruction, name in moves if isinstance(instruction, Load)}
    return loaded & {name for instruction, name in moves if isinstance(instruction, Store)}


def bounds(where: Where, default: int) -> tuple[int, int]:
    """The first of the sorted entries and one past the last; `default` twice without entries."""
    if isinstance(where, slice):
        return (int(where.start), int(where.stop)) if where.start < where.stop else (default, default)
    return (int(where[0]), int(where[-1]) + 1) if len(where) else (default, default)


# --- touches form by form -------------------------------------------------------------------------

# The touches of all operations, form by form, where every access is inside its tile and tensor.
#
# Operations of a form whose bases agree in what matters are shifted copies of each other, so one
# footprint serves them all.

_Spans = Mapping[str, tuple[int, int]]
"""The least and the greatest value of each base field."""


class _Outside(Exception):
    """Some operation of a form leaves its tile or tensor."""


def form_touches(
    config: Config, placed: Placed, table: Ints, addresses: Mapping[BufferTile, int], tensors: Sequence[ProgramTensor]
) -> list[SpaceTouches] | None:
    """The touches of every space; None if an operation leaves its tile or tensor.

    `table` is that of `form_table`.
    """
    collector = _Collector(config, placed, addresses, tensors)
    try:
        for form, rows in placed.rows():
            if placed.op[rows[0]] != NO_OP:
                collector.add(form, table[form].tolist(), rows)
    except _Outside:
        return None
    return [value.finish() for value in collector.spaces.values()]


class _Collector:
    """The touches found so far, by space."""

    def __init__(
        self,
        config: Config,
        placed: Placed,
        addresses: Mapping[BufferTile, int],
        tensors: Sequence[ProgramTensor],
    ) -> None:
        self.config, self.placed, self.addresses = config, placed, addresses
        self.footprints = Footprints(config)
        self.dram = DramSpaces(config, placed.forms, tensors)
        used, *extremes = (column.tolist() for column in placed.extremes)
        self.extremes = dict(zip(used, zip(*extremes, strict=True), strict=True))  # by form
        self.kernels = KernelOffsets(config)
        self.spaces: dict[Hashable, TouchList] = {}

    def add(self, number: int, most: Row, rows: Ints) -> None:
        """Add the touches of a form; `most` has the largest value in each base field."""
        form = self.placed.forms[number]
        kernel = self.kernels.of(form.uops)
        if self.footprints.excess(most, kernel):
            raise _Outside
        bases = {name: self.placed.fields[name][rows] for name in fields_of(form.instruction)}
        alike = self.footprints.alike(most, kernel, bases)
        if (alike == alike[0]).all():  # mostly
            self._add_alike(form, most, kernel, rows, bases, self._spans(form, number))
        else:
            for kind in isa.numbered(alike)[0]:
                chosen = np.flatnonzero(alike == kind)
                some = {name: bases[name][chosen] for name in bases}
                spans = {name: (int(values.min()), int(values.max())) for name, values in some.items()}
                self._add_alike(form, most, kernel, rows[chosen], some, spans)
        if form.tensor is not None:
            self._add_beats(form, most, rows)

    def _spans(self, form: MacroOp, number: int) -> _Spans:
        """The spans of the bases of all rows of a form."""
        least, greatest = self.extremes[number]
        return {name: (least[ROW_FIELDS.index(name)], greatest[ROW_FIELDS.index(name)]) for name in form.bases}

    def _add_alike(
        self, form: MacroOp, most: Row, kernel: UopOffsets | None, rows: Ints, bases: Mapping[str, Ints], spans: _Spans
    ) -> None:
        row = list(most)
        for name, values in bases.items():
            row[COL[name]] = int(values[0])
        for access in self.footprints.accesses(row, kernel):
            if access.buffer == Buffer.UOP:
                continue
            if access.field not in form.bases:
                raise _Outside
            per_entry, entries = self.footprints.unit(row, kernel, access.field)
            first = row[COL[access.field]] // per_entry
            ends = [(base // per_entry - first) * entries for base in spans[access.field]]
            self._check_inside(form, access, ends)
            distance = (bases[access.field] // per_entry - first) * entries
            self._list(access.buffer).add(rows, access.where, distance, access.writes)
        for held in self.footprints.state_accesses(row, kernel):
            distance = np.zeros(len(rows), np.int64)
            if held.field is not None:
                distance = bases[held.field] - row[COL[held.field]]
            self._list(held.state).add(rows, held.where, distance, held.writes)

    def _check_inside(self, form: MacroOp, access: BufferAccess, ends: Sequence[int]) -> None:
        """`ends` are the least and the greatest distance of the access from its place."""
        tile = form.bases[access.field][0]
        if tile.buffer != access.buffer:
            raise _Outside
        low = self.addresses[tile]
        if isinstance(access.where, slice) and access.where.start >= access.where.stop:
            return
        first, end = bounds(access.where, low)
        if first + ends[0] < low or end + ends[1] > low + tile.entries:
            raise _Outside

    def _add_beats(self, form: MacroOp, most: Row, rows: Ints) -> None:
        assert form.tensor is not None
        if self.footprints.dram_excess(most, self.dram.beats[form.tensor], form.tensor) is not None:
            raise _Outside
        if self.dram.is_shared(form.tensor):
            space, beats = self.dram.place(form.tensor)
            distance = self.placed.fields["dram"][rows] - most[COL["dram"]]
            where = (self.footprints.beats(most), distance) if beats is None else (beats, np.zeros(len(rows), np.int64))
            self._list(space).add(rows, *where, isinstance(form.instruction, Store))

    def _list(self, space: Hashable) -> TouchList:
        return self.spaces.setdefault(space, TouchList())
