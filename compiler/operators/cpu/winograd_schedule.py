# SPDX-License-Identifier: Apache-2.0
"""The CPU schedule of the Winograd convolution: bands of tile rows stay in the cache.

For each band the data are transformed, multiplied in register tiles of image tiles by channels, and
transformed back, one result tile and one vector of channels at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.operators.cpu.block_nest import (
    BlockNest,
    block_nest,
    consumer_of,
    consumers,
    loops_inside,
    producers,
)
from vdla.compiler.operators.cpu.choices import INNER, OUTER, Choices, thread_plan
from vdla.compiler.operators.cpu.register_tile import (
    RegisterTile,
    best_register_tile,
    candidates,
    legal_tiles,
    ordered_loops,
)
from vdla.compiler.operators.cpu.tile_sums import prefetch_weights, unroll_steps
from vdla.compiler.operators.winograd import WINDOW
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_PARALLEL_BANDS = 4  # the fewest bands to run in parallel; otherwise loops inside of a band run in parallel
_CACHE_BYTES = 1 << 19  # of the second-level cache, for data and products of a band


@dataclass(frozen=True, slots=True)
class _Stages:
    """The blocks around the product, in program order."""

    rows: str
    data: str
    product: str
    columns: str
    sums: str


def schedule_winograd_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer into bands of tile rows, and compute all stages inside of a band."""
    nest = block_nest(schedule.fn, block)
    stages = _stages_around(nest)
    side, _, blocks, down, across, lanes = nest.extents[1:7]
    best = _band_rows(nest)
    depth = choices.value("band_rows", best, range(1, down + 1))
    legal = legal_tiles(target, (1, across, blocks)) + list(candidates(target, (best, across, blocks)))
    tile = choices.tile(best_register_tile(target, (best, across, blocks)), legal, (down, across, blocks))
    consumer = consumer_of(schedule, stages.sums, (4, 5))
    band, channels, place = _tile_consumer(schedule, consumer, side - WINDOW + 1, depth, lanes)
    _transform_back(schedule, stages.sums, place, (2, 3))
    _transform_back(schedule, stages.columns, place, (2, 4))
    product = _schedule_products(schedule, block, band, depth, tile, target, choices)
    data = _transform_data(schedule, stages, band, target)
    bands = -(-down // depth) * nest.extents[0]
    loops = (OUTER, INNER) if bands >= _PARALLEL_BANDS else (INNER, OUTER)
    plan = thread_plan(choices, *loops)
    plan.run(schedule, *((band,) if plan.loops == OUTER else (channels, product, data)))


def _transform_back(schedule: Schedule, block: str, place: str, unrolled: tuple[int, int]) -> None:
    """Compute a stage after the product one tile at a time, unrolled, in lanes of channels."""
    schedule.compute_at(block, place)
    loops = loops_inside(schedule, block, place)
    for d in unrolled:
        schedule.unroll(loops[d])
    schedule.vectorize(loops[-1])


def _schedule_products(
    schedule: Schedule, block: str, band: str, rows: int, tile: RegisterTile, target: Target, choices: Choices
) -> str:
    """Sum products of a band of `rows` in register tiles; the loop over positions in a tile."""
    schedule.compute_at(block, band)
    n, i, j, channels, down, across, lane, ci = loops_inside(schedule, block, band)
    channels_outer, channels = schedule.split(channels, factor=tile.vectors)
    down_outer, down = schedule.split(down, factor=min(tile.depth, rows))
    across_outer, across = schedule.split(across, factor=tile.rows // tile.depth)
    steps = unroll_steps(schedule, block, [ci], target, choices)
    inner = ordered_loops(target, tile, (down, across), channels)
    schedule.reorder(n, i, j, channels_outer, down_outer, across_outer, *steps, *inner, lane)
    for loop in (down, across, channels):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    prefetch_weights(schedule, block, channels, lane, steps, target, choices)
    return schedule.fuse(i, j)


def _band_rows(nest: BlockNest) -> int:
    """The tile rows of a band, which minimise memory traffic."""
    side, _, blocks, down, across, lanes, channels = nest.extents[1:]
    row_bytes = side * side * across * (blocks * lanes + channels) * nest.element_bytes
    weight_bytes = side * side * blocks * lanes * channels * nest.element_bytes

    def traffic(rows: int) -> int:
        passes = -(-down // rows)
        again = passes * weight_bytes if weight_bytes > _CACHE_BYTES else 0
        return again + (2 * down * row_bytes if rows * row_bytes > _CACHE_BYTES else 0)

    return min(range(1, down + 1), key=traffic)


def _tile_consumer(schedule: Schedule, consumer: str, tile: int, depth: int, lanes: int) -> tuple[str, str, str]:
    """Tile the consumer into bands; the loops that contain a band, its channels and a tile."""
    n, channel, row, column, *blocked = schedule.loops(consumer)
    outer, lane = (channel, *blocked) if blocked else schedule.split(channel, factor=lanes)
    band, row = schedule.split(row, factor=tile * depth)
    row_tile, row = schedule.split(row, factor=tile)
    column_tile, column = schedule.split(column, factor=tile)
    schedule.reorder(n, band, outer, row_tile, column_tile, row, lane, column)
    for loop in (row, column if blocked else lane):
        schedule.unroll(loop)
    schedule.vectorize(lane if blocked else column)
    return schedule.fuse(n, band), outer, column_tile


def _transform_data(schedule: Schedule, stages: _Stages, band: str, target: Target) -> str:
    """Transform a row of tiles of a channel or a block at a time; the loop over them.

    Lanes lie along the row, or along the channels of the block.
    """
    schedule.compute_at(stages.data, band)
    n, i, j, c, th, tw, *blocked = loops_inside(schedule, stages.data, band)
    schedule.reorder(n, c, th, *([tw, i, j, *blocked] if blocked else [i, j, tw]))
    schedule.unroll(i)
    schedule.unroll(j)
    schedule.vectorize(blocked[0] if blocked else tw)
    schedule.compute_at(stages.rows, th)
    channels = c
    n, c, row, i, w, *blocked = loops_inside(schedule, stages.rows, th)
    factor = target.lanes(block_nest(schedule.fn, stages.rows).element_bytes)
    outer, lane = (w, *blocked) if blocked else schedule.split(w, factor=factor)
    schedule.reorder(n, c, row, outer, i, lane)
    schedule.unroll(i)
    schedule.vectorize(lane)
    return channels


def _stages_around(product: BlockNest) -> _Stages:
    """The stages before and after the product."""
    data, columns = producers(product)[0], consumers(product)[0]
    nests = producers(data)[0], data, product, columns, consumers(columns)[0]
    return _Stages(*(nest.name for nest in nests))
