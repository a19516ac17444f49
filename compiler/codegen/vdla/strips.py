# SPDX-License-Identifier: Apache-2.0
"""Strips: a computation that would wait for its whole window runs in parts, between those of its
transfers.

    LOAD a window of 9 rows         LOAD its rows 0 to 4
    GEMM of 7 rows           ->     GEMM of rows 0 to 2
    STORE 7 rows                    STORE rows 0 to 2
                                    LOAD rows 5 to 8
                                    GEMM of rows 3 to 6
                                    STORE rows 3 to 6

A block asks for them (`Schedule.strips`). Virtual threads overlap all transfers but the first and
the last, so with them only the computations at these are cut. Results do not change: each tile is
read and written by the same operations as before, in an order that keeps every reader behind what
it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.codegen.vdla.check_macro_ops import shared_tensors
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import NO_TILE, FormTable, MacroOps, form_and_numbers, own_tiles
from vdla.compiler.codegen.vdla.strip_pieces import can_be_cut, strips_of
from vdla.compiler.codegen.vdla.tiles import tensorized_blocks
from vdla.compiler.ir import STRIPS, line_numbers
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Extended, Gemm, Load, Store, Vector

_Ints = NDArray[np.int64]
_NO_ROW = _NO_BASE = -1


def in_strips(config: Config, fn: ir.Function, ops: MacroOps) -> MacroOps:
    """The operations of a function, those of blocks that ask for it in strips."""
    for request in _requests(fn):
        ops = cut(config, ops, request)
    return ops


@dataclass(frozen=True, slots=True)
class StripRequest:
    """A block by its line of the schedule; `ends`: virtual threads overlap all but the ends."""

    source: int
    count: int
    ends: bool


def cut(config: Config, ops: MacroOps, request: StripRequest) -> MacroOps:
    """The operations, those from the line of a request in strips."""
    return _replaced(ops, _Strips.of(config, ops, request).pieces())


def _requests(fn: ir.Function) -> list[StripRequest]:
    lines, requests = line_numbers(fn), []
    for block in tensorized_blocks(fn):
        if STRIPS in block.node.annotations:
            ends = any(loop.kind is ir.LoopKind.VTHREAD for loop in block.path)
            requests.append(StripRequest(lines[block.name], block.node.annotations[STRIPS], ends))
    return requests


_COMPUTE, _LOAD, _STORE = range(3)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of one of the three operations of a computation: its form, and what is added to the
    numbers of the whole.
    """

    operation: int
    form: MacroOp
    moved: _Ints
    dram: int


_Pieces = dict[int, list[tuple[int, _Piece]]]
"""What replaces the operation in a row: parts, each of the operation in some row."""


@dataclass(frozen=True, slots=True)
class _Transfers:
    """By the row of a computation: the LOAD whose window it reads first, and the STORE whose
    results it completes.
    """

    loads: dict[int, int]
    stores: dict[int, int]

    def ends(self) -> _Transfers:
        """The first window and the last results."""
        return _Transfers(dict(sorted(self.loads.items())[:1]), dict(sorted(self.stores.items())[-1:]))


@dataclass(frozen=True)
class _Strips:
    """The computations of a block that are cut, with their transfers."""

    config: Config
    ops: MacroOps
    count: int
    transfers: _Transfers
    known: dict[tuple[int, ...], list[list[_Piece]]] = field(default_factory=dict)

    @staticmethod
    def of(config: Config, ops: MacroOps, request: StripRequest) -> _Strips:
        """The computations of a request."""
        transfers = _transfers(ops, request.source)
        return _Strips(config, ops, request.count, transfers.ends() if request.ends else transfers)

    def pieces(self) -> _Pieces:
        """What replaces the operation in each row that is cut."""
        result: _Pieces = {}
        loads, stores = self.transfers.loads, self.transfers.stores
        for row in sorted({*loads, *stores}):
            rows = [row, loads.get(row, _NO_ROW), stores.get(row, _NO_ROW)]
            result |= {item: [] for item in rows if item != _NO_ROW}
            strips = self._strips(rows)
            for position, strip in enumerate(strips):
                for piece in strip:
                    # The first part of the window and the last results stay where the whole was.
                    stays = {_COMPUTE: True, _LOAD: position == 0, _STORE: position == len(strips) - 1}
                    place = rows[piece.operation] if stays[piece.operation] else row
                    result[place].append((rows[piece.operation], piece))
        return result

    def _strips(self, rows: Sequence[int]) -> list[list[_Piece]]:
        """The pieces of each strip; where equal forms lie alike in their tiles, they are equal."""
        ops = self.ops
        key = [int(ops.form[item]) if item != _NO_ROW else _NO_ROW for item in rows]
        for name, other in zip(("src", "out"), rows[1:], strict=True):
            key.append(self._offset(rows[0], name) - int(ops.offsets[other, 0]) if other != _NO_ROW else 0)
        if tuple(key) not in self.known:
            self.known[tuple(key)] = list(self._cut(rows))
        return self.known[tuple(key)]

    def _offset(self, row: int, name: str) -> int:
        bases = list(self.ops.forms[self.ops.form[row]].bases)
        return int(self.ops.offsets[row, bases.index(name)])

    def _cut(self, rows: Sequence[int]) -> Iterator[list[_Piece]]:
        """The pieces of each strip in order."""
        compute, load, store = (self.ops[item] if item != _NO_ROW else None for item in rows)
        assert compute is not None
        for strip in strips_of(self.config, self.count, compute, load, store):
            yield [
                *(_piece(_LOAD, part, load) for part in strip.loads),
                _piece(_COMPUTE, strip.compute, compute),
                *(_piece(_STORE, part, store) for part in strip.stores),
            ]


def _piece(operation: int, part: MacroOp, whole: MacroOp | None) -> _Piece:
    assert whole is not None
    form, numbers, dram = form_and_numbers(part)
    _, before, first = form_and_numbers(whole)
    return _Piece(operation, form, np.array(numbers, np.int64) - np.array(before, np.int64), int(dram) - int(first))


def _transfers(ops: MacroOps, source: int) -> _Transfers:
    """The transfers around computations from a line of the schedule.

    A tensor that is loaded and stored is left alone: the order of these matters.
    """
    forms, shared = ops.forms, shared_tensors(ops.forms)
    asks, moves, source_at = (np.zeros(len(forms), np.int64) for _ in range(3))
    for number, form in enumerate(forms):
        asks[number] = form.source == source and isinstance(form.instruction, Gemm | Vector | Extended)
        moves[number] = can_be_cut(form) and form.tensor not in shared
        source_at[number] = list(form.bases).index("src") if "src" in form.bases else _NO_BASE
    tile, tiles = own_tiles(ops)
    cut, plain = asks[ops.form] > 0, moves[ops.form] > 0
    read, load, column = _turns(ops, tile, tiles, Buffer.INP)
    loads = cut[read] & plain[load] & (source_at[ops.form[read]] == column)
    store, wrote, _ = _turns(ops, tile, tiles, Buffer.OUT)
    stores = cut[wrote] & plain[store]
    return _Transfers(
        dict(zip(read[loads].tolist(), load[loads].tolist(), strict=True)),
        dict(zip(wrote[stores].tolist(), store[stores].tolist(), strict=True)),
    )


def _turns(ops: MacroOps, tile: _Ints, tiles: Sequence[BufferTile], buffer: Buffer) -> tuple[_Ints, _Ints, _Ints]:
    """The rows that are the first to use a tile after one operation that filled it alone: those
    rows, the row that filled it, the column of `tile`. A STORE uses what a computation filled.
    """
    in_buffer = np.array([item.buffer == buffer for item in tiles], np.bool_)
    row, column = np.nonzero((tile != NO_TILE) & in_buffer[tile])
    order = np.argsort(tile[row, column], kind="stable")  # by tile, then in program order
    row, column = row[order], column[order]
    used = tile[row, column]
    transfers = np.array([isinstance(form.instruction, Load | Store) for form in ops.forms], np.bool_)[ops.form[row]]
    fills = transfers if buffer == Buffer.INP else ~transfers
    again = fills & np.append(False, fills[:-1] & (used[1:] == used[:-1]))
    lone = fills & ~again if buffer == Buffer.INP else fills  # the last computation completes results
    at = 1 + np.flatnonzero(~fills[1:] & lone[:-1] & (used[1:] == used[:-1]))
    return row[at], row[at - 1], column[at]


def _replaced(ops: MacroOps, pieces: _Pieces) -> MacroOps:
    """The operations with pieces in place of some rows."""
    table, count = FormTable(), np.ones(len(ops), np.int64)
    for row, parts in pieces.items():
        count[row] = len(parts)
    rows = np.repeat(np.arange(len(ops)), count)
    form, first, moved = ops.form[rows], np.cumsum(count) - count, []
    for row, parts in pieces.items():
        for at, (whole, piece) in enumerate(parts, int(first[row])):
            rows[at] = whole
            form[at] = len(ops.forms) + table.number(piece.form)
            moved.append((at, piece))
    offsets, dram = ops.offsets[rows], ops.dram[rows]
    for at, piece in moved:
        offsets[at, : len(piece.moved)] += piece.moved
        dram[at] += piece.dram
    return MacroOps((*ops.forms, *table.forms), form, offsets, dram)
