"""The CPU schedule of windows over blocks of channels, such as depthwise ones: tiles of pixels.

The taps of a tile are unrolled, so that pixels that neighbouring results share are loaded once.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.producers_consumers import consumer_of
from vdla.compiler.operators.cpu.register_tile import even_part
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_MOST_TAPS = 49  # of a window whose taps are unrolled


def schedule_blocked_window(schedule: Schedule, block: str, target: Target) -> None:
    """Tile the consumer of the sums into parts of rows, and compute the sums of a part inside."""
    axes = block_nest(schedule.fn, block).leaf.block.axes
    columns, _, *taps = (nominal_extent(axis.extent) for axis in axes[3:])
    consumer = consumer_of(schedule, block, (5,))
    n, channel, _, column, lane = schedule.loops(consumer)
    outer, inner = schedule.split(column, factor=even_part(columns, target.vector_registers // 4))
    schedule.unroll(inner)
    schedule.vectorize(lane)
    schedule.compute_at(block, outer)
    loops = schedule.loops(block)
    _, _, _, pixel, lane, *reduce = loops[loops.index(outer) + 1 :]
    schedule.reorder(*reduce, pixel, lane)
    for loop in (pixel, *(reduce if taps[0] * taps[1] <= _MOST_TAPS else ())):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    schedule.parallel(schedule.fuse(n, channel))
