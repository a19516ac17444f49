# SPDX-License-Identifier: Apache-2.0
"""The schedule of a matrix product for tensor cores: shared tiles, sums in the registers of warps.

A block of up to 8 warps computes a tile of the result of up to 128 x 128 elements, each warp a part
of it as fragments of 16 x 8. In each step over the reduction axis, all threads fetch the tiles of
both operands into shared memory in vectors of 16 bytes. The row stride of a tile is an odd number
of vectors, which avoids bank conflicts both when eight lanes store vectors and when they load eight
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from math import prod
from typing import ClassVar

from vdla.compiler import ir
from vdla.compiler.analysis import loads, stores
from vdla.compiler.codegen.llvm.intrinsics.mma import SUMS, RowsOfB, mma
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.cpu.block_nest import block_nest, consumer_of, nominal_extent
from vdla.compiler.operators.gpu.tile_choice import TileProblem, powers
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits
from vdla.compiler.tensorize import LANES, Intrinsic, TensorizeError

VECTOR_BYTES = 16
_PHASE = 8  # lanes whose vectors of 16 bytes access the banks together
_MOST_SUMS = 128  # of a thread, in registers: a product of 64 x 64 for each warp spills nothing
_STEP_BYTES = 64  # of a row of terms in shared memory


@dataclass(frozen=True, slots=True)
class TensorCoreTiles:
    """The rows and columns of the result of a thread block, the terms of a step, and the rows and
    columns of each warp.
    """

    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int

    @property
    def warps(self) -> tuple[int, int]:
        """The warps along rows and along columns."""
        return self.rows // self.warp_rows, self.columns // self.warp_columns

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.warps[0] * self.warps[1] * LANES

    def shared_bytes(self, dtype: str, rows_of_b: RowsOfB) -> int:
        """The shared memory of a block: tiles of both operands, their rows padded, twice."""
        size = storage_dtype(dtype).itemsize
        of_b = (self.depth, self.columns) if rows_of_b is RowsOfB.TERMS else (self.columns, self.depth)
        tiles = ((self.rows, self.depth), of_b)
        return 2 * sum(rows * _padded(length, VECTOR_BYTES // size) for rows, length in tiles) * size


def _padded(length: int, lanes: int) -> int:
    """The elements between rows of a tile: an odd number of vectors of `lanes`."""
    return length + (lanes - length) % (2 * lanes)


_TILES = ((128, 128, 64, 32), (128, 64, 32, 32), (64, 64, 32, 32), (32, 32, 16, 16), (16, 16, 16, 8))
"""Rows and columns of a block and of a warp, largest first, for more reuse of each element in
shared memory.
"""


@dataclass(frozen=True, slots=True)
class TensorCoreOperands:
    """The operands of a product, `b` with rows of terms or of columns, and the step of a warp."""

    a: str
    b: str
    rows_of_b: RowsOfB
    step: Intrinsic


def schedule_tensor_cores(schedule: Schedule, block: str, tiles: TensorCoreTiles) -> None:
    """Tile the product of a block for tensor cores; outer dimensions are batch dimensions.

    Raises:
        ScheduleError: tiles do not divide the extents, or tensor cores cannot compute the product.
    """
    operands = tensor_core_operands(schedule, block)
    leaf = block_nest(schedule.fn, block).leaf
    (buffer,) = {store.buffer for store in stores(leaf.block)}
    _check_divides(schedule, block, operands.step, tiles)
    rank = len(schedule.fn.buffers[buffer].shape)
    result = consumer_of(schedule, block, (rank,), scope="warp")
    if buffer not in schedule.fn.params:
        schedule.set_scope(buffer, "warp")
    schedule.compute_at(block, _split_result(schedule, result, tiles, operands.step))
    step = _split_sums(schedule, block, operands.step, tiles.depth)
    for operand in dict.fromkeys((operands.a, operands.b)):
        _fetch(schedule, block, operand, step, tiles)
    try:
        schedule.tensorize(block, operands.step)
    except TensorizeError as error:
        raise ScheduleError(f"tensor cores for {block}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class TensorCoreProblem(TileProblem):
    """`batch` products of [rows, terms] and [terms, columns]."""

    operator: ClassVar[str] = "tensor_cores"
    block: str
    batch: int
    rows: int
    columns: int
    terms: int
    operands: TensorCoreOperands

    @staticmethod
    def of(schedule: Schedule, block: str, limits: GridLimits) -> TensorCoreProblem:
        """The problem of the block of sums.

        Raises:
            ScheduleError: it sums no product of two operands, or tensor cores lack the types.
        """
        operands, nest = tensor_core_operands(schedule, block), block_nest(schedule.fn, block)
        rows, columns, terms = _extents(schedule, block)
        itemsize = storage_dtype(operands.step.fragments["a"].dtype).itemsize
        return TensorCoreProblem(
            **TileProblem.facts(nest, limits) | {"itemsize": itemsize},
            block=block,
            batch=prod(nominal_extent(axis.extent) for axis in nest.leaf.block.axes[:-3]),
            rows=rows,
            columns=columns,
            terms=terms,
            operands=operands,
        )

    @cached_property
    def default(self) -> TensorCoreTiles:
        """The largest tiles that divide the product and fit the device.

        Raises:
            ScheduleError: there are none.
        """
        depths = _STEP_BYTES // self.itemsize, self.fragment("a")[1]
        for block_rows, block_columns, warp_rows, warp_columns in _TILES:
            for depth in depths:
                tiles = TensorCoreTiles(block_rows, block_columns, depth, warp_rows, warp_columns)
                fits = tiles.threads <= self.limits.threads and self.shared_bytes(tiles) <= self.limits.shared_bytes
                if fits and not (self.rows % block_rows or self.columns % block_columns or self.terms % depth):
                    return tiles
        rule = f"rows and columns must be multiples of {_TILES[-1][0]}, terms of {depths[-1]}"
        got = f"{self.rows}, {self.columns} and {self.terms}"
        raise ScheduleError(f"tensor cores for {self.block}: {rule}, got {got}")

    def fragment(self, operand: str) -> tuple[int, int]:
        """The rows and columns of a fragment."""
        rows, columns = self.operands.step.fragments[operand].shape
        return rows, columns

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        (rows, terms), (_, columns) = self.fragment("a"), self.fragment("c")
        warp = {"warp_rows": powers(rows, 128), "warp_columns": powers(columns, 128)}
        return {"rows": powers(rows, 256), "columns": powers(2 * columns, 256), "depth": powers(terms, 128), **warp}

    def fits(self, tiles: TensorCoreTiles) -> bool:
        """Whether tiles divide the product, warps divide tiles, and the sums fit registers."""
        whole = (self.rows, self.columns, self.terms, tiles.rows, tiles.columns)
        if any(extent % size for extent, size in zip(whole, astuple(tiles), strict=True)):
            return False
        return self.sums(tiles) <= _MOST_SUMS and self.holds(tiles, self.shared_bytes(tiles))

    def sums(self, tiles: TensorCoreTiles) -> int:
        """The sums of a thread."""
        return tiles.warp_rows * tiles.warp_columns // LANES

    def shared_bytes(self, tiles: TensorCoreTiles) -> int:
        """The shared memory of a block."""
        return tiles.shared_bytes(self.operands.step.fragments["a"].dtype, self.operands.rows_of_b)


def tensor_core_operands(schedule: Schedule, block: str) -> TensorCoreOperands:
    """The operands of the product of a block: the first has the rows, the second the columns.

    Raises:
        ScheduleError: it sums no product of two operands, or tensor cores lack the types.
    """
    leaf = block_nest(schedule.fn, block).leaf.block
    store = next(iter(stores(leaf)))
    spatial = [axis.var for axis in leaf.axes if axis.kind is not ir.AxisKind.REDUCE]
    read = [load for load in loads(leaf) if load.buffer != store.buffer and load.indices]
    if len(read) != 2:
        raise ScheduleError(f"tensor cores for {block}: it must be a product of two operands, got {len(read)}")
    if len(spatial) < 2 or len(spatial) + 1 != len(leaf.axes):
        axes = ", ".join(axis.var for axis in leaf.axes)
        raise ScheduleError(f"tensor cores for {block}: its axes must be rows, columns and terms, got {axes}")
    column = ir.Var(spatial[-1])
    a, b = sorted(read, key=lambda load: column in load.indices)
    rows = RowsOfB.TERMS if b.indices[-1] == column else RowsOfB.COLUMNS
    dtypes = {schedule.fn.buffers[load.buffer].dtype for load in read}
    sums = schedule.fn.buffers[store.buffer].dtype
    if dtypes not in ({dtype} for dtype, sum_dtype in SUMS.items() if sum_dtype == sums):
        known = ", ".join(f"{dtype} summed in {sum_dtype}" for dtype, sum_dtype in SUMS.items())
        rule = f"operands must be {known}, got {' and '.join(sorted(dtypes))} summed in {sums}"
        raise ScheduleError(f"tensor cores for {block}: {rule}")
    return TensorCoreOperands(a.buffer, b.buffer, rows, mma(dtypes.pop(), rows))


def _extents(schedule: Schedule, block: str) -> tuple[int, int, int]:
    """The rows, the columns and the terms of a product."""
    rows, columns, terms = (loop.size for loop in block_nest(schedule.fn, block).leaf.loops[-3:])
    return rows, columns, terms


def _check_divides(schedule: Schedule, block: str, step: Intrinsic, tiles: TensorCoreTiles) -> None:
    """Refuse tiles that do not divide the product, or that are not a multiple of a warp's step."""
    (rows, terms), (_, columns) = step.fragments["a"].shape, step.fragments["c"].shape
    sizes = zip(
        ("rows", "columns", "depth", "warp_rows", "warp_columns"),
        (tiles.rows, tiles.columns, tiles.depth, tiles.warp_rows, tiles.warp_columns),
        (tiles.warp_rows, tiles.warp_columns, terms, rows, columns),
        (*_extents(schedule, block), tiles.rows, tiles.columns),
        strict=True,
    )
    for what, size, factor, multiple in sizes:
        if size < 1 or size % factor or multiple % size:
            rule = f"{what} must be a multiple of {factor} that divides {multiple}"
            raise ScheduleError(f"tensor cores for {block}: {rule}, got {size}")


def _levels(schedule: Schedule, loop: str, extents: tuple[int, int, int]) -> tuple[str, str, str, str]:
    """Split a loop over blocks, warps, fragments and their elements, of these extents."""
    block, inner = schedule.split(loop, factor=extents[0])
    warp, inner = schedule.split(inner, factor=extents[1])
    part, element = schedule.split(inner, factor=extents[2])
    return block, warp, part, element


def _split_result(schedule: Schedule, result: str, tiles: TensorCoreTiles, step: Intrinsic) -> str:
    """Split the result over blocks, warps and fragments; the innermost loop over warps."""
    *batch, row, column = [loop.var for loop in block_nest(schedule.fn, result).leaf.loops]
    split = (
        _levels(schedule, row, (tiles.rows, tiles.warp_rows, step.fragments["c"].shape[0])),
        _levels(schedule, column, (tiles.columns, tiles.warp_columns, step.fragments["c"].shape[1])),
    )
    blocks, warps, parts, elements = zip(*split, strict=True)
    schedule.reorder(*batch, *blocks, *warps, *parts, *elements)
    if batch:
        schedule.bind(schedule.fuse(*batch) if len(batch) > 1 else batch[0], "blockIdx.z")
    axes = ("blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y")
    for loop, axis in zip((*blocks, *warps), axes, strict=True):
        schedule.bind(loop, axis)
    for loop in parts:
        schedule.unroll(loop)
    schedule.vectorize(elements[1])
    return warps[1]


def _split_sums(schedule: Schedule, block: str, step: Intrinsic, depth: int) -> str:
    """Split the terms into steps of shared tiles, then of instructions, around the fragments of a
    warp; the loop over the steps.
    """
    row, column, term = schedule.loops(block)[-3:]
    outer, terms = schedule.split(term, factor=depth)
    part, inner = schedule.split(terms, factor=step.fragments["a"].shape[1])
    shape = step.fragments["c"].shape
    tiles, elements = zip(
        *(schedule.split(loop, factor=n) for loop, n in zip((row, column), shape, strict=True)), strict=True
    )
    schedule.reorder(outer, part, *tiles, *elements, inner)
    for loop in (part, *tiles):
        schedule.unroll(loop)
    return outer


def _fetch(schedule: Schedule, block: str, operand: str, step: str, tiles: TensorCoreTiles) -> None:
    """Copy the tile of an operand to shared memory in `step`, double-buffered, in vectors of 16
    bytes distributed over all threads.

    Where a row has fewer than eight vectors, neighbouring lanes store to neighbouring rows.
    """
    tile = schedule.cache_read(block, operand, "shared")
    schedule.compute_at(tile, step)
    row, column = (loop.var for loop in block_nest(schedule.fn, tile).loops[-2:])
    lanes = VECTOR_BYTES // storage_dtype(schedule.fn.buffers[tile].dtype).itemsize
    extents = [loop.size for loop in block_nest(schedule.fn, tile).loops[-2:]]
    vector, lane = schedule.split(column, factor=lanes)
    schedule.vectorize(lane)
    if extents[1] // lanes < _PHASE and extents[0] % _PHASE == 0:
        outer, inner = schedule.split(row, factor=_PHASE)
        schedule.reorder(outer, vector, inner)
        fetch = schedule.fuse(outer, vector, inner)
    else:
        fetch = schedule.fuse(row, vector)
    _, fetch = schedule.split(fetch, factor=tiles.threads)
    z, thread = schedule.split(fetch, factor=tiles.warps[1] * LANES)
    y, x = schedule.split(thread, factor=LANES)
    for loop, axis in ((z, "threadIdx.z"), (y, "threadIdx.y"), (x, "threadIdx.x")):
        schedule.bind(loop, axis)
    schedule.storage_align(tile, len(schedule.fn.buffers[tile].shape) - 2, 2 * lanes, lanes)
    schedule.double_buffer(tile)
