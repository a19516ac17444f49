# SPDX-License-Identifier: Apache-2.0
"""Leaves out computation on padding: GEMMs and VECTORs do not read entries that change no result.

A convolution multiplies its padding zeros like any pixel: a fifth of the work of a 3x3 kernel on
7x7 pixels. Padding is known here, since a LOAD writes it. An operation that reads padding is cut
into rectangles of its two loops in which the same micro-ops read it, and these micro-ops are left
out. Results do not change: sums are of integers, and a maximum is not below its other elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.macro_ops import FormTable, MacroOps, TiledOps, own_tiles
from vdla.compiler.codegen.vdla.padding_pieces import PaddingCutter
from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Extended, Gemm, Load, Source, Vector, VectorOp

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]

_DATA = 1 << 40  # what an entry holds that is not padding


def skip_padding(config: Config, ops: MacroOps) -> MacroOps:
    """The operations in order, without computation on padding that changes no result."""
    if not any(_pads(form.instruction) for form in ops.forms):
        return ops
    tile, tiles = own_tiles(ops)
    return _Columns(config, ops, tile, [tile.entries for tile in tiles]).run()[1]


def cut_at_padding(config: Config, ops: TiledOps) -> tuple[_Ints, TiledOps]:
    """`skip_padding`, where the parts of an operation stay in its group; and for each part, the row
    of the operation.
    """
    if not any(_pads(form.instruction) for form in ops.ops.forms):
        return np.arange(len(ops)), ops
    whole, parts = _Columns(config, ops.ops, ops.tile, ops.entries.tolist()).run()
    return whole, ops.cut(whole, parts)


def _pads(instruction: isa.Instruction) -> bool:
    """Whether a LOAD of inputs writes padding."""
    if not isinstance(instruction, Load) or instruction.buffer != Buffer.INP:
        return False
    sides = instruction.y_before, instruction.y_after, instruction.x_before, instruction.x_after
    return any(sides) or not instruction.y_size or not instruction.x_size


class _Columns:
    """All operations of a list: those that read the same padding alike are cut once."""

    def __init__(self, config: Config, ops: MacroOps, tile: _Ints, entries: Sequence[int]) -> None:
        self.ops, self.tile, self.entries = ops, tile, entries
        self.cutter = PaddingCutter(config)
        self.neutral = [_neutral_of(config, form) for form in ops.forms]
        self.contents: list[_Ints] = []  # what a tile holds, by number
        self._padded: dict[tuple[int, int], _Bools | None] = {}
        self.table = FormTable()
        self.number = np.array([self.table.number(form) for form in ops.forms], np.int64)

    def run(self) -> tuple[_Ints, MacroOps]:
        """The operations that replace these, and for each the row that it is a part of."""
        ops, cuts = self.ops, list(self._cuts())
        count = np.ones(len(ops), np.int64)
        for rows, parts in cuts:
            count[rows] = len(parts)
        whole = np.repeat(np.arange(len(ops)), count)
        form, offsets = self.number[ops.form[whole]], ops.offsets[whole]
        first = np.cumsum(count) - count
        for rows, parts in cuts:
            at = first[rows]
            for position, (number, distances) in enumerate(parts):
                form[at + position] = number
                offsets[at + position, : len(distances)] += distances
        return whole, MacroOps(tuple(self.table.forms), form, offsets, ops.dram[whole])

    def _cuts(self) -> Iterator[tuple[_Ints, list[tuple[int, list[int]]]]]:
        """Operations that read padding alike; the form and the distances of each of their parts."""
        contents = self._contents()
        for form, rows in self.ops.rows():
            neutral = self.neutral[form]
            if neutral is None:
                continue
            src = self.ops.offsets[rows, _source(self.ops.forms[form])]
            (held_in, tile), (bases, base) = isa.numbered(contents[rows]), isa.numbered(src)
            kinds, which = isa.numbered(tile * len(bases) + base)
            at, firsts = held_in[kinds // max(1, len(bases))], bases[kinds % max(1, len(bases))]
            for kind, (held, first) in enumerate(zip(at.tolist(), firsts.tolist(), strict=True)):
                padding = self._padding(held, neutral)
                if padding is None:
                    continue
                yield rows[which == kind], self._parts(self.ops.forms[form], first, padding)

    def _parts(self, form: MacroOp, base: int, padding: _Bools) -> list[tuple[int, list[int]]]:
        return [(self.table.number(part), moved) for part, moved in self.cutter.parts(form, base, padding)]

    def _padding(self, held: int, neutral: int) -> _Bools | None:
        """Which entries of a tile's contents change no result; None if none does."""
        if held < 0:
            return None
        if (held, neutral) not in self._padded:
            padding = self.contents[held] == neutral
            self._padded[held, neutral] = padding if padding.any() else None
        return self._padded[held, neutral]

    def _contents(self) -> _Ints:
        """The number of the contents of each operation's input tile; -1 before the first LOAD."""
        count, none = len(self.ops), np.zeros(0, np.int64)
        loads, readers, source = [none], [none], np.zeros(count, np.int64)
        for form, rows in self.ops.rows():
            op = self.ops.forms[form]
            if isinstance(op.instruction, Load) and op.instruction.buffer == Buffer.INP:
                loads.append(rows)
            elif self.neutral[form] is not None:
                readers.append(rows)
                source[rows] = _source(op)
        writes, reads = np.concatenate(loads), np.concatenate(readers)
        written = np.sort(self.tile[writes, 0] * count + writes)  # by tile, then in program order
        read = self.tile[reads, source[reads]]
        last = np.searchsorted(written, read * count + reads) - 1
        after = np.array([*self._after((written % max(1, count)).tolist()), -1], np.int64)
        known = (last >= 0) & (written[last] // max(1, count) == read) if len(written) else np.zeros(len(reads), bool)
        result = np.full(count, -1, np.int64)
        result[reads] = np.where(known, after[last], -1)
        return result

    def _after(self, loads: Sequence[int]) -> Iterator[int]:
        """The number of a tile's contents after each LOAD; equal ones have one number.

        The LOADs of each tile follow each other.
        """
        known: dict[tuple[int, int, int], int] = {}
        numbers: dict[bytes, int] = {}
        tile, held = -1, -1
        tiles, forms, offsets = (
            column[loads].tolist() for column in (self.tile[:, 0], self.ops.form, self.ops.offsets[:, 0])
        )
        for row, loaded_tile, form, offset in zip(loads, tiles, forms, offsets, strict=True):
            if loaded_tile != tile:
                tile, held = loaded_tile, -1 - self.entries[loaded_tile]  # a number for each size of an empty tile
            key = held, form, offset
            if key not in known:
                before = np.full(self.entries[tile], _DATA, np.int64) if held < 0 else self.contents[held]
                after = _loaded(before, self.ops[row])
                known[key] = numbers.setdefault(after.tobytes(), len(self.contents))
                if known[key] == len(self.contents):
                    self.contents.append(after)
            held = known[key]
            yield held


def _source(op: MacroOp) -> int:
    """The position of the base that inputs are read at."""
    return list(op.bases).index("src")


def _neutral_of(config: Config, form: MacroOp) -> int | None:
    return _neutral(config, form.instruction) if isinstance(form.instruction, Gemm | Vector | Extended) else None


def _loaded(before: _Ints, op: MacroOp) -> _Ints:
    """The contents of a tile after a LOAD: _DATA, or the value of padding."""
    load, first = op.instruction, int(op.bases["sram"][1])
    assert isinstance(load, Load)
    rows, cols = load.y_before + load.y_size + load.y_after, load.x_before + load.x_size + load.x_after
    grid = np.full((load.z_size, rows, cols), load.pad_value, np.int64)
    grid[:, load.y_before :, load.x_before :][:, : load.y_size, : load.x_size] = _DATA
    after = before.copy()
    after[first : first + grid.size] = grid.reshape(-1)[: len(after) - first]
    return after


def _neutral(config: Config, instruction: Gemm | Vector | Extended) -> int | None:
    """The input that does not change a result, or None."""
    if isinstance(instruction, Gemm):
        return 0
    if isinstance(instruction, Extended):
        plug_in = instruction.plug_in
        return 0 if plug_in.skips_zeros and plug_in.src.buffer == Buffer.INP else None
    if instruction.source != Source.INP:
        return None
    match instruction.op:
        case VectorOp.ADD | VectorOp.MAC:
            return 0
        case VectorOp.MAX:
            return -(1 << (config.inp_bits - 1))
    return None
