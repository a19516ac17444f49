"""The schedule of a depthwise convolution for a GPU: a tile of each channel with its halo.

A group of threads computes a tile of pixels of some channels. It fetches the part of the image that
the windows cover into shared memory, where neighbours share it, padding on the way. The sums add
their terms in the order of the tensor expression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import loads
from vdla.compiler.arith import linear
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, nominal_extent
from vdla.compiler.operators.cpu.producers_consumers import consumer_of
from vdla.compiler.operators.gpu.conv2d_schedule import fetch_input, image_of
from vdla.compiler.operators.gpu.group_loops import bind_all, fuse_all, keep_in_registers, padded_extent, split_tile
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits

_THREADS = 128
_COLUMNS = 32
_OWN = (2, 1)


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


def default_depthwise_tiles(schedule: Schedule, block: str, limits: GridLimits) -> DepthwiseTiles:
    """Rows of a channel, or several channels of a small image."""
    nest = block_nest(schedule.fn, block)
    channels, rows, columns = (nominal_extent(axis.extent) for axis in nest.leaf.block.axes[1:4])
    own = next(own for own in _OWN if columns % own == 0)
    width = padded_extent(min(columns, _COLUMNS), own)
    most = min(_THREADS, limits.threads)
    across = width // own
    height = _divisor(rows, max(1, most // across))
    multiplier = _multiplier(nest)
    together = multiplier * _divisor(channels // multiplier, max(1, most // (across * height * multiplier)))
    if across * height * together > most:
        together = 1
    tiles = DepthwiseTiles(together, height, width, 1, own)
    while halo_bytes(nest, tiles) > limits.shared_bytes // 2 and max(tiles.channels, tiles.rows) > 1:
        smaller = _divisor(rows, tiles.rows // 2) if tiles.channels == 1 else tiles.rows
        fewer = multiplier * _divisor(channels // multiplier, max(1, tiles.channels // multiplier // 2))
        tiles = replace(tiles, channels=fewer if fewer < tiles.channels else 1, rows=smaller)
    return tiles


def _multiplier(nest: BlockNest) -> int:
    """The output channels of an input channel."""
    channel = ir.Var(nest.leaf.block.axes[1].var)
    for index in (index for load in loads(nest.leaf.block) for index in load.indices):
        match index:
            case ir.Binary("floordiv", base, ir.Const(int(multiplier))) if base == channel:
                return multiplier
    return 1


def halo_bytes(nest: BlockNest, tiles: DepthwiseTiles) -> int:
    """The shared memory of a group, for windows that advance along rows as along columns."""
    row, _, *taps = nest.leaf.block.axes[2:]
    indices = [linear(index).terms for load in loads(nest.leaf.block) for index in load.indices]
    stride, gap = (max([1, *(terms.get(ir.Var(axis.var), 0) for terms in indices)]) for axis in (row, taps[0]))
    covered = zip((tiles.rows, tiles.columns), taps, strict=True)
    pixels = prod((tile - 1) * stride + (nominal_extent(tap.extent) - 1) * gap + 1 for tile, tap in covered)
    return tiles.channels * pixels * nest.element_bytes


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent up to a number."""
    return next(n for n in range(min(extent, most), 0, -1) if extent % n == 0)


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
    y, y_thread, y_own = split_tile(schedule, consumer, row, tiles.rows, tiles.thread_rows)
    x, x_thread, x_own = split_tile(schedule, consumer, column, tiles.columns, tiles.thread_columns)
    schedule.reorder(n, outer, y, x, channel_thread, y_thread, x_thread, y_own, x_own)
    pixel = schedule.fuse(y_thread, x_thread)
    keep_in_registers(schedule, block)
    schedule.compute_at(block, pixel)
    bind_all(schedule, [channel_thread, pixel], THREAD_AXES)
    fetch_input(schedule, image, schedule.cache_read(block, image, "shared"), pixel, tiles.threads)
    bind_all(schedule, [fuse_all(schedule, [n, outer]), y, x], BLOCK_AXES)
