# SPDX-License-Identifier: Apache-2.0
"""The schedule of a direct convolution for a GPU: tiles of pixels by output channels in registers.

A group of threads computes some channels of a tile of pixels. In each step over the input channels,
all threads together fetch the part of the image covered by the windows of the tile, and the weights
of the channels, into shared memory, padding the image and packing a plain weight on the way. Sums
add terms in the order of the tensor expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import ClassVar

from vdla.compiler import ir
from vdla.compiler.analysis import loads, read_buffers, written_buffers
from vdla.compiler.arith import linear, var_names
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES
from vdla.compiler.operators.cpu.block_nest import (
    BlockNest,
    block_nest,
    block_nests,
    consumer_of,
    loops_inside,
    nominal_extent,
)
from vdla.compiler.operators.cpu.stage_schedule import attempt, operation_count
from vdla.compiler.operators.gpu.group_loops import (
    bind_all,
    fetch_together,
    fuse_all,
    keep_in_registers,
    split_tile,
)
from vdla.compiler.operators.gpu.tile_choice import TileProblem, divisors, padded_extent, powers
from vdla.compiler.operators.roles import GROUP
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits

_CHANNEL_THREADS = 16  # along channels
_PIXEL_THREADS = 16  # along pixels
_THREAD_SIZES = (4, 2, 1)
_ROWS = (1, 2, 4, 7, 8, 14, 16)
_COLUMNS = (4, 7, 8, 14, 16, 28, 32)
_DEPTHS = (8, 4, 2, 1)
_ROW = 2  # of the axes [n, c, y, x]
_GLOBAL_COST = 4.0  # of a load from global memory, over one from shared memory
_CHEAP = 3  # operations that are worth repeating for each group


@dataclass(frozen=True, slots=True)
class Conv2dTiles:
    """The tile of a thread block, in blocks of output channels and pixels, and of a thread; the
    `depth` input channels of a step.

    If `implicit`, shared memory holds the window of each pixel, like a tile of a matrix product,
    instead of the part of the image covered by them.
    """

    blocks: int
    rows: int
    columns: int
    thread_channels: int
    thread_rows: int
    thread_columns: int
    depth: int
    implicit: bool = False

    def threads(self, lanes: int) -> dict[str, int]:
        """The threads of a group along each axis, for blocks of `lanes` channels."""
        pixels = (self.rows // self.thread_rows) * -(-self.columns // self.thread_columns)
        return {"threadIdx.x": pixels, "threadIdx.y": lanes // self.thread_channels, "threadIdx.z": self.blocks}


@dataclass(frozen=True, kw_only=True)
class Conv2dProblem(TileProblem):
    """The sums of a convolution: [n, blocks, rows, columns, lanes] over [channels, *taps].

    `blocks` are the channel blocks of one group of the convolution; the groups are treated as
    further `images` of the batch.
    """

    operator: ClassVar[str] = "conv2d"
    images: int
    blocks: int
    rows: int
    columns: int
    lanes: int
    channels: int
    taps: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]

    @staticmethod
    def of(schedule: Schedule, block: str, limits: GridLimits) -> Conv2dProblem:
        """The problem of the block of sums."""
        nest = block_nest(schedule.fn, block)
        batch, blocks, rows, columns, lane, channels, *taps = (axis for axis in nest.leaf.block.axes)
        group, lanes = int(nest.leaf.block.annotations[GROUP]), _number(lane)
        of_group = -(-group // lanes) if group else _number(blocks)
        return Conv2dProblem(
            **TileProblem.facts(nest, limits),
            images=nominal_extent(batch.extent) * -(-nominal_extent(blocks.extent) // of_group),
            blocks=of_group,
            rows=_number(rows),
            columns=_number(columns),
            lanes=lanes,
            channels=_number(channels),
            taps=(_number(taps[0]), _number(taps[1])),
            strides=_steps(nest, (rows, columns)),
            dilations=_steps(nest, (taps[0], taps[1])),
        )

    @cached_property
    def default(self) -> Conv2dTiles:
        """The tiles with the fewest loads for each multiply-add that fit the device.

        Raises:
            ScheduleError: none fits.
        """
        tiles = min(self._candidates(), key=self._cost, default=None)
        if tiles is None:
            most = self.limits.shared_bytes
            raise ScheduleError(f"conv2d on a grid: a window must fit {most} bytes of shared memory")
        return tiles

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Sizes up to the extents, or divisors of them where required."""
        return {
            "blocks": divisors(self.blocks, 8),
            "rows": sorted({min(n, self.rows) for n in _ROWS}),
            "columns": sorted({min(n, self.columns) for n in _COLUMNS}),
            "thread_channels": divisors(self.lanes, 8),
            "thread_rows": powers(1, 2),
            "thread_columns": powers(1, 4),
            "depth": divisors(self.channels, 16),
        }

    def threads(self, tiles: Conv2dTiles) -> int:
        """The threads of a group."""
        return prod(tiles.threads(self.lanes).values())

    def fits(self, tiles: Conv2dTiles) -> bool:
        """Whether threads divide the tile of a thread block, which lies mostly in the image."""
        sums = tiles.thread_channels * tiles.thread_rows * tiles.thread_columns
        return self.holds_image(tiles, (self.rows, self.columns), sums, self.shared_bytes(tiles))

    def shared_bytes(self, tiles: Conv2dTiles) -> int:
        """The shared memory of a group: a window of the image, and the weights of its channels."""
        covered = zip((tiles.rows, tiles.columns), self.strides, self.taps, self.dilations, strict=True)
        image = prod((tile - 1) * stride + (taps - 1) * gap + 1 for tile, stride, taps, gap in covered)
        windows = prod(self.taps) * tiles.rows * tiles.columns
        weights = prod(self.taps) * tiles.blocks * self.lanes
        return tiles.depth * ((windows if tiles.implicit else image) + weights) * self.itemsize

    @property
    def _is_apart(self) -> bool:
        """Whether windows are disjoint and skip elements of the image."""
        steps = list(zip(self.strides, self.taps, self.dilations, strict=True))
        apart = all(stride > (taps - 1) * gap for stride, taps, gap in steps)
        return apart and any(stride > taps for stride, taps, _ in steps)

    def _cost(self, tiles: Conv2dTiles) -> float:
        """Loads per multiply-add, from shared and from global memory, with waste where tiles exceed
        the image.
        """
        pixels, thread_pixels = tiles.rows * tiles.columns, tiles.thread_rows * tiles.thread_columns
        channels = tiles.blocks * self.lanes
        waste = padded_extent(self.rows, tiles.rows) * padded_extent(self.columns, tiles.columns)
        fetched = self.shared_bytes(tiles) / self.itemsize / tiles.depth / prod(self.taps)
        shared = 1 / thread_pixels + 1 / tiles.thread_channels
        return waste / (self.rows * self.columns) * (shared + _GLOBAL_COST * fetched / (pixels * channels))

    def _candidates(self) -> Iterator[Conv2dTiles]:
        """Tiles that fit the device, each with the largest number of input channels in a step."""
        channels = next(size for size in _THREAD_SIZES if self.lanes % size == 0)
        most = min(_CHANNEL_THREADS * _PIXEL_THREADS, self.limits.threads)
        columns = {*(c for c in _COLUMNS if c < self.columns), min(self.columns, _COLUMNS[-1])}
        rows = {min(r, self.rows) for r in _ROWS}
        for n, r, c, size in product(divisors(self.blocks, self.blocks), sorted(rows), sorted(columns), _THREAD_SIZES):
            tiles = Conv2dTiles(
                blocks=n,
                rows=r,
                columns=padded_extent(c, size),
                thread_channels=channels,
                thread_rows=1,
                thread_columns=size,
                depth=1,
                implicit=self._is_apart,
            )
            threads = tiles.threads(self.lanes)
            fits = prod(threads.values()) <= most and threads["threadIdx.y"] * n <= max(_CHANNEL_THREADS, self.lanes)
            deep = (replace(tiles, depth=depth) for depth in _DEPTHS if self.channels % depth == 0)
            deepest = next((t for t in deep if self.shared_bytes(t) <= self.limits.shared_bytes // 2), None)
            if fits and deepest is not None:
                yield deepest


def _number(axis: ir.Axis) -> int:
    """The extent of an axis, which must be a number."""
    return ir.number(axis.extent, axis.var)


def _steps(nest: BlockNest, axes: tuple[ir.Axis, ir.Axis]) -> tuple[int, int]:
    """The steps of image rows and columns along two axes."""
    indices = [linear(index).terms for load in loads(nest.leaf.block) for index in load.indices]
    y, x = (max([1, *(abs(terms.get(ir.Var(axis.var), 0)) for terms in indices)]) for axis in axes)
    return y, x


def schedule_conv2d(schedule: Schedule, block: str, tiles: Conv2dTiles) -> None:
    """Tile the consumer of the sums, and compute the sums of a tile inside.

    Raises:
        ScheduleError: the tiles do not divide blocks, lanes or input channels.
    """
    nest = block_nest(schedule.fn, block)
    lanes = _number(nest.leaf.block.axes[4])
    group = int(nest.leaf.block.annotations[GROUP])
    if lanes % tiles.thread_channels:
        raise ScheduleError(f"conv2d on a grid: channels of a thread must divide {lanes}, got {tiles.thread_channels}")
    consumer = consumer_of(schedule, block, (4, 5), "local")
    groups, threads = _tile_consumer(schedule, consumer, tiles, lanes, group)
    keep_in_registers(schedule, block)
    schedule.compute_at(block, threads[-1])
    n, blocks, rows, columns, lane, channel, *taps = loops_inside(schedule, block, threads[-1])
    step, inner = schedule.split(channel, factor=tiles.depth)
    schedule.reorder(step, inner, *taps, n, blocks, rows, columns, lane)
    bind_all(schedule, threads, THREAD_AXES)
    image = image_of(nest.leaf.block)
    terms = replace(nest.leaf.block, init=None)  # a bias is read once
    for buffer in sorted(read_buffers(terms)):
        copy = schedule.reindex if tiles.implicit and buffer == image else schedule.cache_read
        fetch_input(schedule, buffer, copy(block, buffer, "shared"), step, tiles.threads(lanes))
    bind_all(schedule, groups, BLOCK_AXES)


def _tile_consumer(
    schedule: Schedule, consumer: str, tiles: Conv2dTiles, lanes: int, group: int
) -> tuple[list[str], list[str]]:
    """Tile the consumer, with no tile across two groups; the loops over groups and over threads."""
    n, channel, row, column, *lane = schedule.loops(consumer)
    images = [n]
    if group:
        outer, channel = schedule.split(channel, factor=-(-group // lanes) if lane else group)
        images.append(outer)
    if not lane:
        channel, element = schedule.split(channel, factor=lanes)
        lane = [element]
    channel_thread, channel_element = schedule.split(lane[0], factor=tiles.thread_channels)
    blocks, block_thread = schedule.split(channel, factor=tiles.blocks)
    y, y_thread, y_element = split_tile(schedule, consumer, row, tiles.rows, tiles.thread_rows)
    x, x_thread, x_element = split_tile(schedule, consumer, column, tiles.columns, tiles.thread_columns)
    threads = (block_thread, channel_thread, y_thread, x_thread)
    schedule.reorder(*images, blocks, y, x, *threads, channel_element, y_element, x_element)
    pixel = schedule.fuse(y_thread, x_thread)
    return [fuse_all(schedule, [*images, blocks]), y, x], [block_thread, channel_thread, pixel]


def image_of(block: ir.Block) -> str:
    """The buffer that sums [n, c, y, x, ...] read at an index that depends on y."""
    moving = (load.buffer for load in loads(block) if any(block.axes[_ROW].var in var_names(i) for i in load.indices))
    return next(buffer for buffer in moving if buffer not in written_buffers(block))


def fetch_input(schedule: Schedule, buffer: str, tile: str, loop: str, threads: dict[str, int]) -> None:
    """Let a group fetch `tile`, a copy of a buffer in shared memory, in `loop`.

    A cheap stage that computes the buffer only for this block is computed while fetching.
    """
    schedule.compute_at(tile, loop)
    producer = next((nest for nest in block_nests(schedule.fn) if buffer in written_buffers(nest.leaf.block)), None)
    if producer is not None and _is_cheap(producer):
        attempt(schedule, lambda: schedule.inline(producer.name))
    fetch_together(schedule, tile, loop, threads)


def _is_cheap(producer: BlockNest) -> bool:
    """Whether a stage is worth repeating for each group that reads it."""
    body = producer.leaf.block.body
    return isinstance(body, ir.Store) and not producer.loops_of("reduce") and operation_count(body.value) <= _CHEAP
