"""The CPU schedule of windows over blocks of channels, such as depthwise ones: tiles of pixels.

The taps of a tile are unrolled, so that pixels that neighbouring results share are loaded once.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.producers_consumers import consumer_of
from vdla.compiler.operators.cpu.register_tile import RegisterTile, even_part, legal_tiles
from vdla.compiler.operators.cpu.threads import INNER, OUTER, thread_plan
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_MOST_TAPS = 49  # of a window whose taps are unrolled
_MOST_ROWS = 4  # of a tile: more share no pixels of the usual windows


def schedule_blocked_window(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums into parts of rows, and compute the sums of a part inside."""
    axes = block_nest(schedule.fn, block).leaf.block.axes
    rows, columns, _, *taps = (nominal_extent(axis.extent) for axis in axes[2:])
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
    loops = schedule.loops(block)
    _, _, line, pixel, lane, *reduce = loops[loops.index(outer) + 1 :]
    schedule.reorder(*reduce, *((line,) if tile.depth > 1 else ()), pixel, lane)
    unrolled = choices.value("unrolled_taps", taps[0] * taps[1] <= _MOST_TAPS, (False, True))
    for loop in (*((line,) if tile.depth > 1 else ()), pixel, *(reduce if unrolled else ())):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    plan = thread_plan(choices, OUTER, INNER)
    plan.run(schedule, schedule.fuse(n, channel, *((row,) if plan.loops == INNER else ())))
