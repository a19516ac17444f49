# SPDX-License-Identifier: Apache-2.0
"""The schedule of a depthwise convolution for a GPU: a tile of each channel with its halo.

A thread block computes a tile of pixels of some channels. It fetches the part of the image covered
by the windows, with padding, into shared memory, where neighbouring results share it. The sums add
their terms in the order of the tensor expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import ClassVar

from vdla.compiler import ir
from vdla.compiler.analysis import loads
from vdla.compiler.arith import linear
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, consumer_of, nominal_extent
from vdla.compiler.operators.gpu.conv2d_schedule import fetch_input, image_of
from vdla.compiler.operators.gpu.group_loops import bind_all, fuse_all, keep_in_registers, split_tile
from vdla.compiler.operators.gpu.tile_choice import TileProblem, divisors, padded_extent, powers
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits

_THREADS = 128
_COLUMNS = 32
_THREAD_COLUMNS = (2, 1)
_PIXELS = (1, 2, 4, 7, 8, 14, 16, 28, 32)


@dataclass(frozen=True, slots=True)
class DepthwiseTiles:
    """The tile of a group, in channels and pixels, and the pixels of a thread."""

    channels: int
    rows: int
    columns: int
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> dict[str, int]:
        """The threads of a group along each axis."""
        pixels = (self.rows // self.thread_rows) * (self.columns // self.thread_columns)
        return {"threadIdx.x": pixels, "threadIdx.y": self.channels}


@dataclass(frozen=True, kw_only=True)
class DepthwiseProblem(TileProblem):
    """A depthwise convolution: sums [n, channels, rows, columns] over taps are `extents`.

    Windows advance along rows as along columns, by `stride`, with `gap` between taps; `multiplier`
    is the number of output channels of an input channel.
    """

    operator: ClassVar[str] = "depthwise_conv2d"
    extents: tuple[int, ...]
    stride: int
    gap: int
    multiplier: int

    @staticmethod
    def of(schedule: Schedule, block: str, limits: GridLimits) -> DepthwiseProblem:
        """The problem of the block of sums."""
        nest = block_nest(schedule.fn, block)
        axes = nest.leaf.block.axes
        indices = [linear(index).terms for load in loads(nest.leaf.block) for index in load.indices]
        stride, gap = (max([1, *(terms.get(ir.Var(axes[n].var), 0) for terms in indices)]) for n in (2, 4))
        return DepthwiseProblem(
            **TileProblem.facts(nest, limits),
            extents=tuple(nominal_extent(axis.extent) for axis in axes),
            stride=stride,
            gap=gap,
            multiplier=_multiplier(nest),
        )

    @cached_property
    def default(self) -> DepthwiseTiles:
        """Rows of one channel, or several channels of a small image."""
        (channels, rows, columns), multiplier = self.extents[1:4], self.multiplier
        thread_columns = next(size for size in _THREAD_COLUMNS if columns % size == 0)
        width = padded_extent(min(columns, _COLUMNS), thread_columns)
        most = min(_THREADS, self.limits.threads)
        across = width // thread_columns
        height = _divisor(rows, max(1, most // across))
        together = multiplier * _divisor(channels // multiplier, max(1, most // (across * height * multiplier)))
        if across * height * together > most:
            together = 1
        tiles = DepthwiseTiles(together, height, width, 1, thread_columns)
        while self.halo_bytes(tiles) > self.limits.shared_bytes // 2 and max(tiles.channels, tiles.rows) > 1:
            smaller = _divisor(rows, tiles.rows // 2) if tiles.channels == 1 else tiles.rows
            fewer = multiplier * _divisor(channels // multiplier, max(1, tiles.channels // multiplier // 2))
            tiles = replace(tiles, channels=fewer if fewer < tiles.channels else 1, rows=smaller)
        return tiles

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Sizes up to the extents; divisors for channels."""
        channels, rows, columns = self.extents[1:4]
        return {
            "channels": [n for n in powers(1, 32) if channels % n == 0],
            "rows": sorted({min(n, rows) for n in _PIXELS}),
            "columns": sorted({min(n, columns) for n in _PIXELS if n >= min(4, columns)}),
            "thread_rows": powers(1, 4),
            "thread_columns": powers(1, 4),
        }

    def fits(self, tiles: DepthwiseTiles) -> bool:
        """Whether threads divide the tile of a thread block, which lies mostly in the image."""
        sums = tiles.thread_rows * tiles.thread_columns
        return self.holds_image(tiles, self.extents[2:4], sums, self.halo_bytes(tiles))

    def halo_bytes(self, tiles: DepthwiseTiles) -> int:
        """The shared memory of a group."""
        covered = zip((tiles.rows, tiles.columns), self.extents[4:], strict=True)
        pixels = prod((tile - 1) * self.stride + (taps - 1) * self.gap + 1 for tile, taps in covered)
        return tiles.channels * pixels * self.itemsize


def _multiplier(nest: BlockNest) -> int:
    """The output channels of an input channel."""
    channel = ir.Var(nest.leaf.block.axes[1].var)
    for index in (index for load in loads(nest.leaf.block) for index in load.indices):
        match index:
            case ir.Binary("floordiv", base, ir.Const(int(multiplier))) if base == channel:
                return multiplier
    return 1


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent up to a number."""
    return divisors(extent, most)[-1]


def schedule_depthwise(schedule: Schedule, block: str, tiles: DepthwiseTiles) -> None:
    """Tile the consumer of the sums, and compute the sums of a thread inside.

    Raises:
        ScheduleError: the block does not read an image at [n, c, y, x].
    """
    leaf = block_nest(schedule.fn, block).leaf.block
    image = image_of(leaf)
    consumer = consumer_of(schedule, block, (4,), "local")
    n, channel, row, column = schedule.loops(consumer)
    outer, channel_thread = schedule.split(channel, factor=tiles.channels)
    y, y_thread, y_element = split_tile(schedule, consumer, row, tiles.rows, tiles.thread_rows)
    x, x_thread, x_element = split_tile(schedule, consumer, column, tiles.columns, tiles.thread_columns)
    schedule.reorder(n, outer, y, x, channel_thread, y_thread, x_thread, y_element, x_element)
    pixel = schedule.fuse(y_thread, x_thread)
    keep_in_registers(schedule, block)
    schedule.compute_at(block, pixel)
    bind_all(schedule, [channel_thread, pixel], THREAD_AXES)
    fetch_input(schedule, image, schedule.cache_read(block, image, "shared"), pixel, tiles.threads)
    bind_all(schedule, [fuse_all(schedule, [n, outer]), y, x], BLOCK_AXES)
