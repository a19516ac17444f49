"""The CPU schedule of a quantised convolution into blocks: register tiles of pixels by blocks.

The consumer of the sums is tiled as that of a convolution of floats; the sums of a tile are dot
products of the target.
"""

from __future__ import annotations

from vdla.compiler.codegen.llvm import ROLLED
from vdla.compiler.codegen.llvm.intrinsics.dot import dot_for_layout
from vdla.compiler.operators.cpu.block_nest import block_nest, block_nests, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.conv2d_schedule import tile_consumer
from vdla.compiler.operators.cpu.producers_consumers import consumer_of
from vdla.compiler.operators.cpu.reduction_steps import reduction_order, unroll_steps
from vdla.compiler.operators.cpu.register_tile import best_register_tile, legal_tiles
from vdla.compiler.operators.cpu.weight_prefetch import prefetch_weights
from vdla.compiler.operators.roles import DATA
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target


def schedule_blocked_qconv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums, and compute the sums of a tile inside."""
    leaf = block_nest(schedule.fn, block).leaf.block
    blocks, rows, columns, lanes = (nominal_extent(axis.extent) for axis in leaf.axes[1:5])
    data, group = str(leaf.annotations[DATA]), nominal_extent(leaf.axes[-1].extent)
    extents = rows, columns, blocks
    tile = choices.tile(best_register_tile(target, extents), legal_tiles(target, extents), extents)
    place = tile_consumer(schedule, consumer_of(schedule, block, (5,)), tile, lanes, 0, choices)
    schedule.compute_at(block, place)
    loops = schedule.loops(block)
    n, blocks_inside, row, column, lane, channel, *taps, term = loops[loops.index(place) + 1 :]
    outer = unroll_steps(schedule, block, reduction_order(schedule, block, channel, taps, choices), choices)
    schedule.reorder(n, *outer, row, column, blocks_inside, lane, term)
    for loop in (row, column, blocks_inside):
        schedule.unroll(loop)
    prefetch_weights(schedule, block, blocks_inside, lane, outer, choices)
    schedule.tensorize(lane, dot_for_layout(target, lanes, group, schedule.fn.buffers[data].dtype))
    if any(nest.leaf.name == data for nest in block_nests(schedule.fn)):
        _schedule_data(schedule, data, group)


def _schedule_data(schedule: Schedule, data: str, group: int) -> None:
    """Pad rows of blocks; of a plain image, LLVM turns the groups of neighbours into shuffles."""
    n, channel, row, column, lane = schedule.loops(data)
    if nominal_extent(schedule.fn.buffers[data].shape[4]) == group:
        schedule.unroll(lane)
        schedule.annotate(column, ROLLED, True)
    else:
        schedule.vectorize(lane)
    schedule.parallel(schedule.fuse(n, channel, row))
