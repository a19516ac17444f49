# SPDX-License-Identifier: Apache-2.0
"""Webs, operation by operation: the definition that `split_tiles` is held to.

A walk in program order notes which web every entry of a tile belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import Base, BufferTile, MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.uops import UopKernel
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, BufferAccess, Footprints, UopOffsets, Where
from vdla.hardware.isa.index_set import shift

_UNDEFINED = 0  # the web of entries that nothing has written


def split_one_by_one(config: Config, ops: MacroOps) -> list[MacroOp]:
    """The operations in order, on one tile for each web."""
    webs = _Webs(config)
    rows = list(ops)
    uses = [webs.visit(op, row) for op, row in zip(rows, _columns(config, ops), strict=True)]
    tiles = webs.tiles()
    return [
        _renamed(config, op, {name: tiles[webs.find(web)] for name, web in used.items()})
        for op, used in zip(rows, uses, strict=True)
    ]


def _columns(config: Config, ops: MacroOps) -> list[list[int]]:
    """The columns of every operation, with bases relative to their tiles."""
    table = isa.instruction_columns(config, [form.instruction for form in ops.forms])[ops.form]
    for form, rows in ops.rows():
        for position, name in enumerate(ops.forms[form].bases):
            table[rows, COL[name]] = ops.offsets[rows, position]
        if ops.forms[form].uops:
            table[rows, COL["uop_end"]] = len(ops.forms[form].uops)
    found: list[list[int]] = table.tolist()
    return found


@dataclass(slots=True)
class _Span:
    """The entries [low, high) of a tile that a web uses, with the alignment of the first."""

    tile: BufferTile
    low: int
    high: int
    align: int

    def widen(self, low: int, high: int, align: int) -> None:
        """Include more entries."""
        self.low, self.high, self.align = min(self.low, low), max(self.high, high), max(self.align, align)


class _Webs:
    """Union-find over the webs of one walk in program order."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.footprints = Footprints(config)
        self._kernels: dict[int, tuple[UopKernel, UopOffsets]] = {}
        self._holds: dict[BufferTile, NDArray[np.int32]] = {}  # the web of every entry
        self._parents: list[int] = [_UNDEFINED]
        self._spans: dict[int, _Span] = {}

    def find(self, web: int) -> int:
        """The web that stands for all that were joined with this one."""
        while self._parents[web] != web:
            self._parents[web] = web = self._parents[self._parents[web]]
        return web

    def visit(self, op: MacroOp, row: list[int]) -> dict[str, int]:
        """The web of each base of an operation."""
        used: dict[str, int] = {}
        sums = {op.bases[name][0] for name in ("acc", "src") if name in op.bases}
        two = len(sums) == 2 and {tile.buffer for tile in sums} == {Buffer.ACC}
        apart = self.config.acc_depth if two else 0  # the tiles have different entries of the buffer
        row[COL["src"]] += apart
        for access in self.footprints.accesses(row, self._kernel(op.uops) if op.uops else None):
            if access.field == "src":
                access = replace(access, where=shift(access.where, -apart))
            if access.buffer != Buffer.UOP:
                self._use(used, op, access)
        for name, (tile, _) in op.bases.items():
            if name not in used:  # an index that touches nothing
                used[name] = self._new()
                self._spans[used[name]] = _Span(tile, 0, 1, 1)
        return used

    def _use(self, used: dict[str, int], op: MacroOp, access: BufferAccess) -> None:
        low, high = _bounds(access.where)
        if low >= high:
            return
        tile, web = op.bases[access.field][0], used.get(access.field)
        entries = self._holds.setdefault(tile, np.zeros(tile.entries, np.int32))
        if access.writes:
            web = self._new() if web is None else web
            entries[access.where] = web
        else:
            for held in self._held(entries, access.where):
                web = held if web is None else self._join(web, held)
        assert web is not None
        used[access.field] = web
        align = field_unit(self.config, op.instruction, access.field).numerator
        self._spans.setdefault(self.find(web), _Span(tile, low, high, align)).widen(low, high, align)

    def _held(self, entries: NDArray[np.int32], where: Where) -> list[int]:
        """The webs of what the entries hold; what nothing has written is a web too."""
        part = entries[where]
        if not part.all():
            entries[where] = np.where(part == _UNDEFINED, self._new(), part)
        return sorted({self.find(web) for web in np.unique(entries[where]).tolist()})

    def _kernel(self, uops: UopKernel) -> UopOffsets:
        if id(uops) not in self._kernels:
            columns = isa.uop_columns(self.config, isa.encode_uops(self.config, uops))
            self._kernels[id(uops)] = uops, UopOffsets(columns)
        return self._kernels[id(uops)][1]

    def _new(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _join(self, one: int, other: int) -> int:
        one, other = self.find(one), self.find(other)
        if one != other:
            self._parents[other] = one
            span = self._spans.pop(other, None)
            if span is not None:
                self._spans.setdefault(one, span).widen(span.low, span.high, span.align)
        return one

    def tiles(self) -> dict[int, tuple[BufferTile, int]]:
        """The tile of each web, and its first entry in the old tile."""
        return {web: _tile(span, ident) for ident, (web, span) in enumerate(self._spans.items())}


def _bounds(where: Where) -> tuple[int, int]:
    if isinstance(where, slice):
        return where.start, where.stop
    return (int(where[0]), int(where[-1]) + 1) if len(where) else (0, 0)


def _tile(span: _Span, ident: int) -> tuple[BufferTile, int]:
    low = span.low // span.align * span.align
    return replace(span.tile, entries=span.high - low, ident=ident), low


def _renamed(config: Config, op: MacroOp, tiles: dict[str, tuple[BufferTile, int]]) -> MacroOp:
    bases: dict[str, Base] = {}
    for name, (_, offset) in op.bases.items():
        tile, low = tiles[name]
        unit = field_unit(config, op.instruction, name)
        bases[name] = tile, offset - low * unit.denominator // unit.numerator
    return replace(op, bases=bases)
