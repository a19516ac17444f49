# SPDX-License-Identifier: Apache-2.0
"""Webs: the values of an operator's tiles, each with a tile of its own.

A tile of a loop is filled again in every iteration. Renamed per fill, as registers are, its fills
no longer share one address: a load waits only for space in its buffer, not for the readers of the
last fill. A web is a set of writes and reads such that every read is of entries that a write of the
same web wrote; its tile holds the entries from the first to the last that it uses.

Webs are the connected components of a graph: a node for each base of each operation, an edge from
each read to the last write of each of its entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.check_macro_ops import bounds
from vdla.compiler.codegen.vdla.dependences import SpaceTouches, TouchList, chunks
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import NO_TILE, MacroOps, TiledOps, own_tiles
from vdla.compiler.codegen.vdla.uops import KernelOffsets
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, Footprints, Partition, UopOffsets, partition
from vdla.hardware.isa.index_set import shift

Ints = NDArray[np.int64]
_UNTOUCHED = np.iinfo(np.int64).max


def split_tiles(config: Config, ops: MacroOps) -> TiledOps:
    """The operations in order, each a group of its own, on one tile for each web."""
    tile, tiles = own_tiles(ops)
    nodes = _Nodes(config, ops, tile, tiles)
    nodes.visit()
    used = np.flatnonzero(tile.reshape(-1) != NO_TILE)
    representatives, web = np.unique(nodes.components()[used], return_inverse=True)
    low, high, align = nodes.spans(used, web, len(representatives))
    low -= low % align
    webs = np.full(tile.size, NO_TILE, np.int64)
    webs[used] = web
    number = webs.reshape(tile.shape)
    origin = np.zeros(len(low), np.int64)
    origin[web] = tile.reshape(-1)[used]
    return TiledOps(
        ops=replace(ops, offsets=ops.offsets - _moved(config, ops, low, number)),
        tile=number,
        entries=high - low,
        origin=tuple(tiles[index] for index in origin.tolist()),
        group=np.arange(len(ops)),
    )


def _moved(config: Config, ops: MacroOps, low: Ints, tile: Ints) -> Ints:
    """How far the first entry of its tile is from that of the old one, in units of each base."""
    result = np.zeros(ops.offsets.shape, np.int64)
    for number, rows in ops.rows():
        form = ops.forms[number]
        for position, name in enumerate(form.bases):
            unit = field_unit(config, form.instruction, name)
            result[rows, position] = low[tile[rows, position]] * unit.denominator // unit.numerator
    return result


class _Nodes:
    """The accesses of all operations; node `row * width + k` is base `k` of the operation `row`."""

    def __init__(self, config: Config, ops: MacroOps, tile: Ints, tiles: tuple[BufferTile, ...]) -> None:
        self.config, self.ops, self.tile = config, ops, tile
        self.width = max(1, tile.shape[1])
        self.footprints = Footprints(config)
        self.low = np.full(tile.size, _UNTOUCHED, np.int64)
        self.high = np.zeros(tile.size, np.int64)
        self.align = np.ones(tile.size, np.int64)
        self.touches = [TouchList() for _ in tiles]
        self.kernels = KernelOffsets(config)

    def visit(self) -> None:
        """Collect the accesses, form by form: those of a form are shifted copies of a few."""
        table = isa.instruction_columns(self.config, [form.instruction for form in self.ops.forms]).tolist()
        for number, rows in self.ops.rows():
            form, row = self.ops.forms[number], table[number]
            row[COL["uop_end"]] = len(form.uops)
            kernel = self.kernels.of(form.uops)
            bases = {name: self.ops.offsets[rows, position] for position, name in enumerate(form.bases)}
            alike = self.footprints.alike(row, kernel, bases)
            for same in np.unique(alike):
                chosen = np.flatnonzero(alike == same)
                self._visit_alike(form, row, kernel, rows[chosen], {name: bases[name][chosen] for name in bases})

    def _visit_alike(
        self, form: MacroOp, row: list[int], kernel: UopOffsets | None, rows: Ints, bases: dict[str, Ints]
    ) -> None:
        one = list(row)
        for name, values in bases.items():
            one[COL[name]] = int(values[0])
        apart = self.config.acc_depth if _two_sums(form) else 0
        moved = list(one)
        moved[COL["src"]] += apart
        for access in self.footprints.accesses(moved, kernel):
            where = shift(access.where, -apart) if access.field == "src" else access.where
            low, high = bounds(where, 0)
            if access.buffer == Buffer.UOP or low >= high:
                continue
            position = list(bases).index(access.field)
            distance = self.footprints.shift(one, kernel, access.field, bases[access.field])
            node = rows * self.width + position
            self.low[node] = np.minimum(self.low[node], low + distance)
            self.high[node] = np.maximum(self.high[node], high + distance)
            self.align[node] = field_unit(self.config, form.instruction, access.field).numerator
            key = (rows * 2 + access.writes) * self.width + position  # an operation reads before it writes
            self.touches[self.tile[rows[0], position]].add(key, where, distance, access.writes)

    def components(self) -> Ints:
        """The least node of the web of each node."""
        count, edges = self.tile.size, [np.zeros((2, 0), np.int64)]
        for touches in self.touches:
            if touches:
                space = touches.finish()
                parts = partition(space.places)
                edges += self._edges(space, parts, count)
                count += parts.count
        return _components(count, np.concatenate(edges, axis=1))[: self.tile.size]

    def _edges(self, space: SpaceTouches, parts: Partition, unwritten: int) -> Iterator[Ints]:
        """[2, n]: a read, and the last write of some of its entries.

        What a part holds before any write is a value too, with node `unwritten` plus its number.
        """
        node = space.op // (2 * self.width) * self.width + space.op % self.width
        writer = unwritten + np.arange(parts.count)
        for chunk in chunks(np.cumsum(np.diff(parts.starts)[space.place])):
            touch, part, first = parts.histories(space.place[chunk])
            nodes, writes = node[chunk][touch], space.writes[chunk][touch]
            at = np.maximum.accumulate(np.where(writes, np.arange(len(nodes)), -1))
            source = np.where(at >= first, nodes[at], writer[part])
            yield np.stack([nodes, source])[:, ~writes]
            writer[part[writes]] = nodes[writes]  # the last of a part is assigned last

    def spans(self, used: Ints, web: Ints, count: int) -> tuple[Ints, Ints, Ints]:
        """The first entry of each web, the end, and the alignment of the first."""
        low, high, align = np.full(count, _UNTOUCHED, np.int64), np.ones(count, np.int64), np.ones(count, np.int64)
        np.minimum.at(low, web, self.low[used])
        np.maximum.at(high, web, self.high[used])
        np.maximum.at(align, web, self.align[used])
        return np.where(low == _UNTOUCHED, 0, low), high, align  # a base that touches nothing gets an entry


def _two_sums(form: MacroOp) -> bool:
    """Whether an operation reads a tile of the accumulator and writes another: what it writes is
    not what it reads, though both may have the same index in their tiles.
    """
    acc, src = (form.bases[name][0] if name in form.bases else None for name in ("acc", "src"))
    return acc is not None and src is not None and acc.buffer == src.buffer and acc != src


def _components(count: int, edges: Ints) -> Ints:
    """The least node that each node is connected to."""
    label = np.arange(count)
    while True:
        one, other = label[edges]
        if (one == other).all():
            return label
        np.minimum.at(label, np.maximum(one, other), np.minimum(one, other))
        while (label[label] != label).any():
            label = label[label]
