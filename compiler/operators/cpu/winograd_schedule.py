"""The CPU schedule of Winograd's convolution: rows of tiles pass through all stages while they are in the cache.

For as many rows of tiles as fit, the data are transformed, multiplied in register tiles of image tiles by channels, and
transformed back, one tile of results and one vector of channels at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.analysis.access import read_buffers, written
from vdla.compiler.operators.cpu.nest import Nest, nest_named, nests, size_of
from vdla.compiler.operators.cpu.producers_consumers import reader_of
from vdla.compiler.operators.cpu.tile import Tile, register_tile
from vdla.compiler.operators.winograd import WINDOW
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

BANDS = 4  # from so many on they are the parallel loop, else loops inside of one
CACHE_BYTES = 1 << 19  # of the second-level cache, for data and products of the rows in work


@dataclass(frozen=True, slots=True)
class Stages:
    """The blocks around the product, in program order."""

    rows: str
    data: str
    product: str
    columns: str
    sums: str


def schedule_winograd_conv2d(schedule: Schedule, block: str, target: Target) -> None:
    """Cut the stage that takes the results into rows of tiles, and compute all stages inside of them."""
    nest = nest_named(schedule.fn, block)
    stages = stages_around(schedule, nest)
    taken, blocks, _, across, lanes = (size_of(nest.leaf.block.axes[d].extent) for d in (1, 3, 4, 5, 6))
    depth = rows_of_tiles(nest)
    tile = register_tile(target, (depth, across, blocks))
    reader = reader_of(schedule, stages.sums, (4, 5))
    band, channels, place = tiled_reader(schedule, reader, taken - WINDOW + 1, depth, lanes)
    transform_back(schedule, stages.sums, place, (2, 3))
    transform_back(schedule, stages.columns, place, (2, 4))
    product = multiply(schedule, block, band, tile)
    data = transform_data(schedule, stages, band, target)
    whole = -(-size_of(nest.leaf.block.axes[4].extent) // depth) * size_of(nest.leaf.block.axes[0].extent)
    for loop in (band,) if whole >= BANDS else (channels, product, data):
        schedule.parallel(loop)


def transform_back(schedule: Schedule, block: str, place: str, unrolled: tuple[int, int]) -> None:
    """Compute a stage behind the product for one tile, written out, in lanes of channels."""
    schedule.compute_at(block, place)
    loops = inside(schedule, block, place)
    for d in unrolled:
        schedule.unroll(loops[d])
    schedule.vectorize(loops[-1])


def multiply(schedule: Schedule, block: str, band: str, tile: Tile) -> str:
    """Sum products in register tiles of image tiles by vectors of channels; the loop over places in a tile."""
    schedule.compute_at(block, band)
    n, i, j, channels, down, across, lane, ci = inside(schedule, block, band)
    channels_outer, channels = schedule.split(channels, factor=tile.vectors)
    down_outer, down = schedule.split(down, factor=tile.depth)
    across_outer, across = schedule.split(across, factor=tile.rows // tile.depth)
    schedule.reorder(n, i, j, channels_outer, down_outer, across_outer, ci, down, across, channels, lane)
    for loop in (down, across, channels):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    return schedule.fuse(i, j)


def rows_of_tiles(nest: Nest) -> int:
    """How many rows of tiles are in work at once."""
    taken, _, blocks, down, across, lanes, channels = (size_of(axis.extent) for axis in nest.leaf.block.axes[1:])
    row_bytes = taken * taken * across * (blocks * lanes + channels) * nest.element_bytes
    weight_bytes = taken * taken * blocks * lanes * channels * nest.element_bytes

    def traffic(rows: int) -> int:
        passes = -(-down // rows)
        again = passes * weight_bytes if weight_bytes > CACHE_BYTES else 0
        return again + (2 * down * row_bytes if rows * row_bytes > CACHE_BYTES else 0)

    return min(range(1, down + 1), key=traffic)


def tiled_reader(schedule: Schedule, reader: str, results: int, depth: int, lanes: int) -> tuple[str, str, str]:
    """Cut the reader into bands of rows of tiles and tiles in them; the loops inside which a band, its channels and a
    tile are."""
    n, channel, row, column, *blocked = schedule.loops(reader)
    outer, lane = (channel, *blocked) if blocked else schedule.split(channel, factor=lanes)
    band, row = schedule.split(row, factor=results * depth)
    row_tile, row = schedule.split(row, factor=results)
    column_tile, column = schedule.split(column, factor=results)
    schedule.reorder(n, band, outer, row_tile, column_tile, row, lane, column)
    for loop in (row, column if blocked else lane):
        schedule.unroll(loop)
    schedule.vectorize(lane if blocked else column)
    return schedule.fuse(n, band), outer, column_tile


def transform_data(schedule: Schedule, stages: Stages, band: str, target: Target) -> str:
    """Transform a row of tiles of one channel at a time, lanes along it; the loop over channels."""
    schedule.compute_at(stages.data, band)
    n, i, j, c, th, tw = inside(schedule, stages.data, band)
    schedule.reorder(n, c, th, i, j, tw)
    schedule.unroll(i)
    schedule.unroll(j)
    schedule.vectorize(tw)
    schedule.compute_at(stages.rows, th)
    channels = c
    n, c, row, i, w = inside(schedule, stages.rows, th)
    outer, lane = schedule.split(w, factor=target.lanes(nest_named(schedule.fn, stages.rows).element_bytes))
    schedule.reorder(n, c, row, outer, i, lane)
    schedule.unroll(i)
    schedule.vectorize(lane)
    return channels


def inside(schedule: Schedule, block: str, place: str) -> list[str]:
    """The loops of a block inside of a loop."""
    loops = schedule.loops(block)
    return loops[loops.index(place) + 1 :]


def stages_around(schedule: Schedule, product: Nest) -> Stages:
    """The stages that lead to the product and from it."""
    data = maker(schedule, product)
    columns = taker(schedule, product)
    names = (nest.leaf.name for nest in (maker(schedule, data), data, product, columns, taker(schedule, columns)))
    return Stages(*names)


def maker(schedule: Schedule, nest: Nest) -> Nest:
    """The stage that makes what another one reads."""
    read, own = read_buffers(nest.leaf.block), nest.leaf.name
    return next(other for other in nests(schedule.fn) if written(other.leaf.block) & read and other.leaf.name != own)


def taker(schedule: Schedule, nest: Nest) -> Nest:
    """The stage that reads what another one makes."""
    made, own = written(nest.leaf.block), nest.leaf.name
    return next(
        other for other in nests(schedule.fn) if made & read_buffers(other.leaf.block) and other.leaf.name != own
    )
