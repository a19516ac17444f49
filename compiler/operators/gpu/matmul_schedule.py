# SPDX-License-Identifier: Apache-2.0
"""The schedule of a matrix product for a GPU: shared tiles, register tiles, vector loads.

A thread block computes a tile of the result, each thread a small tile in registers. In each step
over the reduction axis, all threads together fetch the tiles of both operands into shared memory,
several elements at a time. Threads skip elements outside the matrices; barriers are never
conditional.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import ClassVar

from vdla.compiler import ir
from vdla.compiler.analysis import read_buffers, written_buffers
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES
from vdla.compiler.operators.cpu.block_nest import block_nest, consumer_of, nominal_extent
from vdla.compiler.operators.gpu.group_loops import bind_all, fetch_together, fuse_all, keep_in_registers, split_tile
from vdla.compiler.operators.gpu.tile_choice import TileProblem, padded_extent, powers
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits

_SIDES = (16, 8, 4, 2, 1)  # rows and columns of threads in a group
_FEWEST_THREADS = 64  # of a thread block, if the device allows
_THREAD_SIZES = (4, 2, 1)  # rows and columns of a thread
_DEPTH = 16
_DEPTHS = (16, 8, *range(32, 3, -1))  # the first that divides the terms
_FEW_TERMS = 64  # for one step
_SHARED_COST, _GLOBAL_COST = 4.0, 16.0  # of a load, relative to a multiply-add
_FEWEST_ROWS = 4  # with fewer, a product is a few sums


@dataclass(frozen=True, slots=True)
class MatmulTiles:
    """The tile of a thread block, `rows` x `columns`; the `depth` terms of a step; the tile of a
    thread; the `lanes` that a thread fetches at once.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    lanes: int = 4

    @property
    def threads(self) -> dict[str, int]:
        """The threads of a group along each axis."""
        return {"threadIdx.x": self.columns // self.thread_columns, "threadIdx.y": self.rows // self.thread_rows}

    def shared_bytes(self, itemsize: int) -> int:
        """The shared memory of a group."""
        return self.depth * (self.rows + self.columns) * itemsize


@dataclass(frozen=True, kw_only=True)
class MatmulProblem(TileProblem):
    """`batch` products of [rows, terms] and [terms, columns]."""

    operator: ClassVar[str] = "matmul"
    batch: int
    rows: int
    columns: int
    terms: int

    @staticmethod
    def of(schedule: Schedule, block: str, limits: GridLimits) -> MatmulProblem:
        """The problem of the block of sums."""
        nest = block_nest(schedule.fn, block)
        *batch, rows, columns, terms = (nominal_extent(axis.extent) for axis in nest.leaf.block.axes)
        return MatmulProblem(
            **TileProblem.facts(nest, limits),
            batch=prod(batch),
            rows=rows,
            columns=columns,
            terms=terms,
        )

    @cached_property
    def default(self) -> MatmulTiles:
        """The tiles with the fewest loads for each multiply-add that fit the device, padding
        included.

        Raises:
            ScheduleError: so few rows or columns that a thread for each result is as fast.
        """
        if min(self.rows, self.columns) < _FEWEST_ROWS:
            got = f"{self.rows} x {self.columns}"
            raise ScheduleError(f"matmul on a grid: a product must have {_FEWEST_ROWS} rows, got {got}")
        parts = list(product(_sides(self.limits), _THREAD_SIZES))
        (rows, thread_rows), (columns, thread_columns) = min(product(parts, parts), key=self._cost)
        sides = rows * thread_rows, columns * thread_columns
        tiles = MatmulTiles(*sides, _depth(self.terms), thread_rows, thread_columns)
        while tiles.shared_bytes(self.itemsize) > self.limits.shared_bytes and tiles.depth > 1:
            tiles = replace(tiles, depth=tiles.depth // 2)
        return tiles

    def _cost(self, tile: tuple[tuple[int, int], tuple[int, int]]) -> float:
        """The relative cost of multiply-adds and loads; `tile` has the threads and the elements of
        a thread along rows and columns.
        """
        (rows, thread_rows), (columns, thread_columns) = tile
        covered = padded_extent(self.rows, rows * thread_rows) * padded_extent(self.columns, columns * thread_columns)
        shared = 1 / thread_rows + 1 / thread_columns
        fetched = 1 / (rows * thread_rows) + 1 / (columns * thread_columns)
        return covered / (self.rows * self.columns) * (1 + _SHARED_COST * shared + _GLOBAL_COST * fetched)

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        tile, thread = powers(4, 128), powers(1, 8)
        of_thread = {"thread_rows": thread, "thread_columns": thread, "lanes": powers(1, 4)}
        return {"rows": tile, "columns": tile, "depth": powers(4, 32), **of_thread}

    def fits(self, tiles: MatmulTiles) -> bool:
        """Whether threads divide the tile of a thread block, which lies mostly in the matrix."""
        sums, shared = tiles.thread_rows * tiles.thread_columns, tiles.shared_bytes(self.itemsize)
        return tiles.depth <= self.terms and self.holds_image(tiles, (self.rows, self.columns), sums, shared)


def _depth(terms: int) -> int:
    """The terms of a step, a divisor if one is near."""
    if terms <= _FEW_TERMS and all(terms % depth for depth in _DEPTHS):
        return terms
    return next((depth for depth in _DEPTHS if terms % depth == 0), _DEPTH)


def _sides(limits: GridLimits) -> list[int]:
    """Rows or columns of threads for thread blocks of a suitable size."""
    most = max(side for side in _SIDES if side * side <= limits.threads)
    return [side for side in _SIDES if side <= most and side * side >= min(_FEWEST_THREADS, most * most)]


def schedule_matmul(schedule: Schedule, block: str, tiles: MatmulTiles) -> None:
    """Tile the product of a block; outer dimensions are batch dimensions.

    Raises:
        ScheduleError: the block is not a product in a separate nest.
    """
    leaf = block_nest(schedule.fn, block).leaf.block
    results = sum(axis.kind is ir.AxisKind.SPATIAL for axis in leaf.axes)
    copy = consumer_of(schedule, block, (results,), "local")
    keep_in_registers(schedule, block)
    *batch, row, column = schedule.loops(copy)
    term = schedule.loops(block)[-1]
    split = (
        split_tile(schedule, copy, row, tiles.rows, tiles.thread_rows),
        split_tile(schedule, copy, column, tiles.columns, tiles.thread_columns),
    )
    groups, threads, elements = ([part[kind] for part in split] for kind in range(3))
    schedule.reorder(*batch, *groups, *threads, *elements)
    schedule.compute_at(block, threads[1])
    step, inner = schedule.split(term, factor=tiles.depth)
    *_, row_loop, column_loop = [loop for loop in schedule.loops(block) if loop not in (step, inner)]
    schedule.reorder(step, inner, row_loop, column_loop)
    bind_all(schedule, threads, THREAD_AXES)
    _fetch_operands(schedule, block, step, tiles)
    bind_all(schedule, [*([fuse_all(schedule, batch)] if batch else []), *groups], BLOCK_AXES)
    schedule.unroll(row_loop)
    if tiles.thread_columns > 1:
        schedule.vectorize(elements[1])


def _fetch_operands(schedule: Schedule, block: str, loop: str, tiles: MatmulTiles) -> None:
    """Copy the tile of each operand to shared memory in `loop`."""
    leaf = block_nest(schedule.fn, block).leaf.block
    for buffer in sorted(read_buffers(leaf) - written_buffers(leaf)):
        tile = schedule.cache_read(block, buffer, "shared")
        schedule.compute_at(tile, loop)
        fetch_together(schedule, tile, loop, tiles.threads, tiles.lanes)
