"""The CPU schedule of a convolution: a register tile of pixels by blocks of output channels, summed in one go.

The stage that brings the sums into the order of the result is cut into tiles, and the sums of a tile are computed
inside, so that they stay in registers and whatever a graph does with the result happens while they are at hand.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.nest import nest_named, size_of
from vdla.compiler.operators.cpu.producers_consumers import reader_of
from vdla.compiler.operators.cpu.stages import attempt
from vdla.compiler.operators.cpu.tile import Tile, register_tile
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

CORNER = 4  # columns that come from as many vectors with few shuffles


def schedule_conv2d(schedule: Schedule, block: str, target: Target) -> None:
    """Tile the stage that reads the sums, and compute them inside of its tiles."""
    sums = nest_named(schedule.fn, block)
    blocks, rows, columns, lanes = (size_of(axis.extent) for axis in sums.leaf.block.axes[1:5])
    group = int(sums.leaf.block.annotations["group"])
    tile = register_tile(target, (rows, columns, -(-group // lanes) if group else blocks))
    reader = reader_of(schedule, block, (4, 5))
    place = tiled_reader(schedule, reader, tile, lanes, group)
    schedule.compute_at(block, place)
    tile_sums(schedule, block, place)


def tiled_reader(schedule: Schedule, reader: str, tile: Tile, lanes: int, group: int) -> str:
    """Cut the reader into tiles, none of channels of two groups; the loop inside which a tile is."""
    n, channel, row, column, *lane = schedule.loops(reader)
    if group:
        groups, channel = schedule.split(channel, factor=-(-group // lanes) if lane else group)
        n = schedule.fuse(n, groups)
    outer, inner = schedule.split(channel, factor=tile.vectors if lane else tile.vectors * lanes)
    columns = tile.rows // tile.depth
    column_outer, column_inner = schedule.split(column, factor=columns)
    row_outer, row_inner = schedule.split(row, factor=tile.depth)
    schedule.reorder(n, outer, row_outer, column_outer, inner, row_inner, column_inner, *lane)
    for loop in (inner, row_inner):
        schedule.unroll(loop)
    if lane:
        schedule.unroll(column_inner)
        schedule.vectorize(*lane)
    else:
        turn_corners(schedule, inner, row_inner, column_inner, columns)
    threads = schedule.fuse(n, outer, row_outer)
    attempt(schedule, lambda: schedule.parallel(threads))  # a block that is filled up seems to reach the next group
    return column_outer


def turn_corners(schedule: Schedule, channel: str, row: str, column: str, columns: int) -> None:
    """Store a few columns of one channel at a time: what lay in lanes of channels comes to lie along the columns."""
    corner, lane = schedule.split(column, factor=columns if columns % CORNER else CORNER)
    schedule.reorder(row, corner, channel, lane)
    schedule.unroll(corner)
    schedule.vectorize(lane)


def tile_sums(schedule: Schedule, block: str, place: str) -> None:
    """The loops of a tile: reductions outside, pixels and blocks written out, a vector of channels innermost."""
    loops = schedule.loops(block)
    n, blocks, rows, columns, lane, *reduce = loops[loops.index(place) + 1 :]
    schedule.reorder(n, *reduce, rows, columns, blocks, lane)
    for loop in (rows, columns, blocks):
        schedule.unroll(loop)
    schedule.vectorize(lane)
