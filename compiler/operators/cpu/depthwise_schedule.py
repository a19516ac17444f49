# SPDX-License-Identifier: Apache-2.0
"""The CPU schedules of depthwise convolutions and pools: lanes along rows, or channels of blocks.

Results are computed in tiles of pixels with unrolled taps, so that pixels shared by neighbouring
results are loaded once. Padding is computed inside, shortly before it is read. With masked loads
there is no padded image: each tap masks the edges of the image.
"""

from __future__ import annotations

from math import prod

from vdla.compiler.analysis import stores
from vdla.compiler.codegen.llvm.intrinsics.window_dot import TAPS, vnni_channel_windows, vnni_windows
from vdla.compiler.operators.cpu.block_nest import (
    block_nest,
    consumer_of,
    loops_inside,
    nominal_extent,
    padding_producer,
)
from vdla.compiler.operators.cpu.choices import INNER, OUTER, Choices, thread_plan
from vdla.compiler.operators.cpu.register_tile import RegisterTile, even_part, largest_divisor, legal_tiles, row_lanes
from vdla.compiler.operators.cpu.stage_schedule import operation_count
from vdla.compiler.operators.roles import DATA, PHASES, RESCALED, RESULT, STRIDE
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_MOST_TAPS = 49  # of a window whose taps are unrolled
_MOST_TAPS_OF_DOTS = 25  # and of a window of 8-bit integers
_FEW_TAPS = 9  # of a window with masked loads in several vectors a row, each with separate code
_REGISTERS_PER_SUM = 4
_MOST_ROWS = 4  # of a tile of blocks: in usual windows more rows share no pixels
_BAND_BYTES = 1 << 14  # of padded rows, in the first-level cache
_COLUMNS = 2  # of a tile of a band
_PADDED_BYTES = 6144  # of rows of 8-bit integers that are stored before any are read

# --- rows -----------------------------------------------------------------------------------------


def schedule_depthwise_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums, and compute the padding and the sums inside."""
    nest = block_nest(schedule.fn, block)
    rows, columns, *taps = nest.extents[2:]
    lanes = row_lanes(columns, target, nest.element_bytes)
    most = target.vector_registers // _REGISTERS_PER_SUM
    best = even_part(rows, most if columns <= lanes else max(1, most // 2))
    depth = choices.value("tile_depth", best, range(1, min(rows, most * 2) + 1))
    consumer, padding = consumer_of(schedule, block, (4,)), padding_producer(schedule, block)
    whole = columns == lanes or (columns % lanes == 0 and taps[0] * taps[1] <= _FEW_TAPS)
    if padding is not None and whole and lanes > 1 and _is_plain_copy(schedule, padding) and target.has("avx512vl"):
        schedule.inline(padding)  # loads of rows just stored would stall on store forwarding
        padding = None
    n, channel, row, column = schedule.loops(consumer)
    row_outer, row_inner = schedule.split(row, factor=depth)
    column_outer, column_inner = schedule.split(column, factor=lanes)
    schedule.reorder(n, channel, row_outer, column_outer, row_inner, column_inner)
    image = schedule.fuse(n, channel)
    schedule.compute_at(block, column_outer)
    n, channel, row, column, *reduce = loops_inside(schedule, block, column_outer)
    schedule.reorder(n, channel, *reduce, row, column)
    unrolled = choices.value("unrolled_taps", taps[0] * taps[1] <= _MOST_TAPS, (False, True))
    for loop in (row, row_inner, *(reduce if unrolled else ())):
        schedule.unroll(loop)
    for loop in (column, column_inner):
        schedule.vectorize(loop)
    if padding is not None:
        schedule.compute_at(padding, image)
        *_, phase, column = schedule.loops(padding)
        if PHASES in block_nest(schedule.fn, padding).leaf.block.annotations:
            schedule.reorder(column, phase)  # the edges of a row are then the same for all phases
            schedule.unroll(phase)
        schedule.vectorize(column)
    thread_plan(choices).run(schedule, image)


def _is_plain_copy(schedule: Schedule, padding: str) -> bool:
    """Whether a padded image only copies the image, without splitting its columns into phases."""
    block = block_nest(schedule.fn, padding).leaf.block
    return PHASES not in block.annotations and all(operation_count(store.value) == 0 for store in stores(block))


def schedule_qdepthwise_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Compute padding, sums and rescaling inside of the rows of the result.

    The data of several channels are stored before they are read: a load that spans several stores
    stalls until these have left the store buffer.
    """
    sums = block_nest(schedule.fn, block)
    data, rescaled, result = map(sums.stage, (DATA, RESCALED, RESULT))
    at_once = _channels_at_once(schedule, data, choices)
    columns, lanes = nominal_extent(schedule.fn.buffers[result].shape[3]), sums.extents[4]
    if columns % lanes:
        channels, place = _copy_from_lanes(schedule, rescaled, result, at_once)
    else:
        channels, place = _rescale_into_result(schedule, rescaled, result, lanes, at_once)
    schedule.compute_at(block, place)
    _schedule_sums(schedule, block, place)
    schedule.compute_at(data, channels)
    schedule.vectorize(schedule.loops(data)[-1])
    thread_plan(choices).run(schedule, channels)


def _rescale_into_result(schedule: Schedule, rescaled: str, result: str, lanes: int, at_once: int) -> tuple[str, str]:
    """Rescale rows of whole vectors into the result; the loops over channel groups and vectors."""
    n, channel, _, column = schedule.loops(result)
    outer, inner = schedule.split(column, factor=lanes)
    schedule.vectorize(inner)
    channels, _ = schedule.split(channel, factor=at_once)
    schedule.compute_at(rescaled, outer)
    schedule.vectorize(schedule.loops(rescaled)[-1])
    return schedule.fuse(n, channels), outer


def _copy_from_lanes(schedule: Schedule, rescaled: str, result: str, at_once: int) -> tuple[str, str]:
    """Rescale whole vectors and copy rows with a remainder; the same two loops."""
    n, channel, row, column, lane = schedule.loops(rescaled)
    schedule.vectorize(lane)
    channels, _ = schedule.split(channel, factor=at_once)
    schedule.reverse_compute_at(result, row)
    schedule.vectorize(schedule.loops(result)[-1])
    return schedule.fuse(n, channels), column


def _channels_at_once(schedule: Schedule, data: str, choices: Choices) -> int:
    """The channels whose data are padded together."""
    _, channels, rows, columns = (nominal_extent(extent) for extent in schedule.fn.buffers[data].shape)
    best = largest_divisor(channels, max(1, _PADDED_BYTES // (rows * columns)))
    return choices.value("channels_at_once", best, (n for n in range(1, channels + 1) if channels % n == 0))


def _schedule_sums(schedule: Schedule, block: str, place: str) -> None:
    """The sums of one vector, with the taps of small windows unrolled."""
    sums = block_nest(schedule.fn, block)
    n, channel, row, column, lane, *taps = loops_inside(schedule, block, place)
    if schedule.fn.buffers[sums.stage(DATA)].dtype == "uint8":
        schedule.reorder(n, channel, row, column, *taps[:-1], lane, taps[-1])
        schedule.tensorize(lane, vnni_windows(sums.extents[4], sums.leaf.block.annotations[STRIDE]))
        taps.pop()
    else:
        schedule.reorder(n, channel, row, column, *taps, lane)
        schedule.vectorize(lane)
    if prod(sums.extents[5 : 5 + len(taps)]) <= _MOST_TAPS_OF_DOTS:
        for loop in taps:
            schedule.unroll(loop)


# --- blocks of channels ---------------------------------------------------------------------------


def schedule_blocked_window(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums into parts of rows, and compute the sums of a part inside."""
    rows, columns, _, *taps = block_nest(schedule.fn, block).extents[2:]
    consumer = consumer_of(schedule, block, (5,))
    n, channel, row, column, lane = schedule.loops(consumer)
    best = RegisterTile(even_part(columns, target.vector_registers // 4), 1)
    tile = choices.tile(best, legal_tiles(target, (min(rows, _MOST_ROWS), columns, 1)), (rows, columns, 1))
    outer, inner = schedule.split(column, factor=tile.rows // tile.depth)
    schedule.unroll(inner)
    if tile.depth > 1:
        row, row_inner = schedule.split(row, factor=tile.depth)
        schedule.reorder(outer, row_inner, inner, lane)
        schedule.unroll(row_inner)
    schedule.vectorize(lane)
    schedule.compute_at(block, outer)
    _, _, line, pixel, lane, *reduce = loops_inside(schedule, block, outer)
    schedule.reorder(*reduce, *((line,) if tile.depth > 1 else ()), pixel, lane)
    unrolled = choices.value("unrolled_taps", taps[0] * taps[1] <= _MOST_TAPS, (False, True))
    for loop in (*((line,) if tile.depth > 1 else ()), pixel, *(reduce if unrolled else ())):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    plan = thread_plan(choices, OUTER, INNER)
    plan.run(schedule, schedule.fuse(n, channel, *((row,) if plan.loops == INNER else ())))


def schedule_blocked_qdepthwise_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums into bands and tiles, and compute padding and sums inside.

    A band of rows of a block is padded, and its results are computed from the first-level cache, a
    tile of a few rows at a time. The sums of a tile fill half of the registers.
    """
    sums = block_nest(schedule.fn, block)
    rows, columns, lanes, *taps = sums.extents[2:]
    data = sums.stage(DATA)
    most = _band_rows(schedule, data, rows)
    band = choices.value("band_rows", even_part(rows, most), sorted({even_part(rows, n) for n in range(1, rows + 1)}))
    tile_rows, tile_columns = _band_tile(target, even_part(rows, most), rows, columns, choices)
    tile_rows = min(tile_rows, band)
    n, channel, row, column, lane = schedule.loops(consumer_of(schedule, block, (5,)))
    bands, row = schedule.split(row, factor=band)
    row_outer, row_inner = schedule.split(row, factor=tile_rows)
    column_outer, column_inner = schedule.split(column, factor=tile_columns)
    schedule.reorder(row_outer, column_outer, row_inner, column_inner, lane)
    for loop in (row_inner, column_inner):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    place = schedule.fuse(n, channel, bands)
    schedule.compute_at(block, column_outer)
    *_, y, x, lane, r, g, term = loops_inside(schedule, block, column_outer)
    schedule.reorder(r, g, y, x, lane, term)
    for loop in (y, x, *((r, g) if taps[0] * taps[1] * taps[2] <= _MOST_TAPS_OF_DOTS else ())):
        schedule.unroll(loop)
    if taps[2] == TAPS:
        schedule.tensorize(lane, vnni_channel_windows(lanes))
    else:
        schedule.vectorize(lane)
    schedule.compute_at(data, place)
    schedule.vectorize(schedule.loops(data)[-1])
    thread_plan(choices).run(schedule, place)


def _band_tile(target: Target, band: int, rows: int, columns: int, choices: Choices) -> tuple[int, int]:
    """The rows and columns of a tile; by default of a band of `band` rows."""
    depth, width = even_part(band, target.vector_registers // 4), even_part(columns, _COLUMNS)
    best, extents = RegisterTile(depth * width, 1, depth), (rows, columns, 1)
    tile = choices.tile(best, legal_tiles(target, extents), extents)
    return tile.depth, tile.rows // tile.depth


def _band_rows(schedule: Schedule, data: str, rows: int) -> int:
    """The rows of results whose padded rows fit the cache."""
    height, width, lanes = (nominal_extent(extent) for extent in schedule.fn.buffers[data].shape[2:])
    return max(1, min(rows, _BAND_BYTES * rows // (height * width * lanes)))
