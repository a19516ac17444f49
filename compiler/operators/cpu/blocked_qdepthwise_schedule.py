"""The CPU schedule of a quantised depthwise convolution of blocks of channels.

A band of rows of a block is padded, and its results are computed from the first-level cache, a tile
of a few rows at a time: pixels that results share are loaded and permuted once. The sums of a tile
fill half of the registers.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm.intrinsics.window_dot import TAPS, vnni_channel_windows
from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.producers_consumers import consumer_of
from vdla.compiler.operators.cpu.register_tile import RegisterTile, even_part, legal_tiles
from vdla.compiler.operators.cpu.threads import thread_plan
from vdla.compiler.operators.roles import DATA
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_BAND_BYTES = 1 << 14  # of padded rows, in the first-level cache
_MOST_TAPS = 25  # of a window whose taps are unrolled
_COLUMNS = 2  # of a tile


def schedule_blocked_qdepthwise_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums into bands and tiles, and compute padding and sums inside."""
    leaf = block_nest(schedule.fn, block).leaf.block
    rows, columns, lanes, *taps = (nominal_extent(axis.extent) for axis in leaf.axes[2:])
    data = str(leaf.annotations[DATA])
    most = _band_rows(schedule, data, rows)
    band = choices.value("band_rows", even_part(rows, most), sorted({even_part(rows, n) for n in range(1, rows + 1)}))
    tile_rows, tile_columns = _tile(target, even_part(rows, most), rows, columns, choices)
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
    loops = schedule.loops(block)
    *_, y, x, lane, r, g, term = loops[loops.index(column_outer) + 1 :]
    schedule.reorder(r, g, y, x, lane, term)
    for loop in (y, x, *((r, g) if taps[0] * taps[1] * taps[2] <= _MOST_TAPS else ())):
        schedule.unroll(loop)
    if taps[2] == TAPS:
        schedule.tensorize(lane, vnni_channel_windows(lanes))
    else:
        schedule.vectorize(lane)
    schedule.compute_at(data, place)
    schedule.vectorize(schedule.loops(data)[-1])
    thread_plan(choices).run(schedule, place)


def _tile(target: Target, band: int, rows: int, columns: int, choices: Choices) -> tuple[int, int]:
    """The rows and columns of a tile; by default of a band of `band` rows."""
    depth, width = even_part(band, target.vector_registers // 4), even_part(columns, _COLUMNS)
    best, extents = RegisterTile(depth * width, 1, depth), (rows, columns, 1)
    tile = choices.tile(best, legal_tiles(target, extents), extents)
    return tile.depth, tile.rows // tile.depth


def _band_rows(schedule: Schedule, data: str, rows: int) -> int:
    """The rows of results whose padded rows fit the cache."""
    height, width, lanes = (nominal_extent(extent) for extent in schedule.fn.buffers[data].shape[2:])
    return max(1, min(rows, _BAND_BYTES * rows // (height * width * lanes)))
