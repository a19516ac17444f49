"""The CPU schedule of a convolution: register tiles of pixels by blocks of output channels.

The consumer of the sums is tiled and the sums of a tile are computed inside, so that they stay in
registers until the element-wise operators after the convolution have read them.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.producers_consumers import consumer_of
from vdla.compiler.operators.cpu.reduction_steps import reduction_order, unroll_steps
from vdla.compiler.operators.cpu.register_tile import RegisterTile, best_register_tile, legal_tiles
from vdla.compiler.operators.cpu.stage_schedule import attempt
from vdla.compiler.operators.cpu.threads import INNER, MIDDLE, OUTER, thread_plan
from vdla.compiler.operators.cpu.weight_prefetch import prefetch_weights
from vdla.compiler.operators.roles import GROUP
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_TRANSPOSED_COLUMNS = 4  # results that few shuffles transpose from as many vectors
_TRANSPOSED_CHOICES = (2, 4, 8)
_CHANNELS, _ROWS, _PIXELS = "channels", "rows", "pixels"  # the outermost loop over tiles
_FUSED = {OUTER: 1, MIDDLE: 2, INNER: 3}  # loops over tiles that are one parallel loop


def schedule_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums, and compute the sums of a tile inside."""
    sums = block_nest(schedule.fn, block)
    blocks, rows, columns, lanes = (nominal_extent(axis.extent) for axis in sums.leaf.block.axes[1:5])
    group = int(sums.leaf.block.annotations[GROUP])
    extents = rows, columns, -(-group // lanes) if group else blocks
    tile = choices.tile(best_register_tile(target, extents), legal_tiles(target, extents), extents)
    consumer = consumer_of(schedule, block, (4, 5))
    place = tile_consumer(schedule, consumer, tile, lanes, group, choices)
    schedule.compute_at(block, place)
    _schedule_sums(schedule, block, place, choices)


def tile_consumer(
    schedule: Schedule, consumer: str, tile: RegisterTile, lanes: int, group: int, choices: Choices
) -> str:
    """Tile the consumer, with no tile across two groups; the loop that contains a tile."""
    n, channel, row, column, *lane = schedule.loops(consumer)
    if group:
        groups, channel = schedule.split(channel, factor=-(-group // lanes) if lane else group)
        n = schedule.fuse(n, groups)
    outer, inner = schedule.split(channel, factor=tile.vectors if lane else tile.vectors * lanes)
    columns = tile.rows // tile.depth
    column_outer, column_inner = schedule.split(column, factor=columns)
    row_outer, row_inner = schedule.split(row, factor=tile.depth)
    order = choices.value("order", _CHANNELS, (_CHANNELS, _ROWS, _PIXELS))
    tiles = {
        _CHANNELS: (outer, row_outer, column_outer),
        _ROWS: (row_outer, outer, column_outer),
        _PIXELS: (row_outer, column_outer, outer),
    }[order]
    schedule.reorder(n, *tiles, inner, row_inner, column_inner, *lane)
    for loop in (inner, row_inner):
        schedule.unroll(loop)
    if lane:
        schedule.unroll(column_inner)
        schedule.vectorize(*lane)
    else:
        most = choices.value("transposed_columns", _TRANSPOSED_COLUMNS, _TRANSPOSED_CHOICES)
        _transpose_channels(schedule, inner, row_inner, column_inner, columns if columns % most else most)
    plan = thread_plan(choices, MIDDLE, OUTER, INNER)
    fused = _FUSED[plan.loops]
    threads, tile_loop = plan.in_parts(schedule, schedule.fuse(n, *tiles[:fused]))
    if plan.is_parallel:  # padding of a block looks like an access to the next group
        attempt(schedule, lambda: schedule.parallel(threads))
    return tiles[2] if fused < len(tiles) else tile_loop


def _transpose_channels(schedule: Schedule, channel: str, row: str, column: str, columns: int) -> None:
    """Store some columns of a channel at a time: lanes of channels become columns."""
    part, lane = schedule.split(column, factor=columns)
    schedule.reorder(row, part, channel, lane)
    schedule.unroll(part)
    schedule.vectorize(lane)


def _schedule_sums(schedule: Schedule, block: str, place: str, choices: Choices) -> None:
    """The loops of a tile: reductions outermost, pixels and blocks unrolled, lanes innermost."""
    loops = schedule.loops(block)
    n, blocks, rows, columns, lane, channel, *taps = loops[loops.index(place) + 1 :]
    reduce = unroll_steps(schedule, block, reduction_order(schedule, block, channel, taps, choices), choices)
    schedule.reorder(n, *reduce, rows, columns, blocks, lane)
    for loop in (rows, columns, blocks):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    prefetch_weights(schedule, block, blocks, lane, reduce, choices)
