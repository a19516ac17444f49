"""The touches of all operations, form by form, where every access is inside its tile and tensor.

Operations of a form whose bases agree in what matters are shifted copies of each other, so one
footprint serves them all.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from vdla.compiler.codegen.vdla.check_macro_ops import bounds, shared_tensors
from vdla.compiler.codegen.vdla.dependences import SpaceTouches, TouchList
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.placed import NO_OP, ROW_FIELDS, Ints, Placed, fields_of
from vdla.compiler.codegen.vdla.uops import KernelOffsets
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, BufferAccess, Footprints, Row, Store, UopOffsets
from vdla.hardware.program import ProgramTensor

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
    return [found.finish() for found in collector.spaces.values()]


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
        self.beats = {tensor.name: tensor.nbytes // config.axi_bytes for tensor in tensors}
        self.shared = shared_tensors(placed.forms)
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
        if self.footprints.dram_excess(most, self.beats[form.tensor], form.tensor) is not None:
            raise _Outside
        if form.tensor in self.shared:
            distance = self.placed.fields["dram"][rows] - most[COL["dram"]]
            beats = self.footprints.beats(most)
            self._list(("dram", form.tensor)).add(rows, beats, distance, isinstance(form.instruction, Store))

    def _list(self, space: Hashable) -> TouchList:
        return self.spaces.setdefault(space, TouchList())
