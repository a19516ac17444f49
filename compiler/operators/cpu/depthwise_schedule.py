"""The CPU schedule of a depthwise convolution: lanes along image rows, several rows at once.

The image is padded a channel at a time, just before it is read; rows that results share are loaded
once. With masked loads there is no padded image: each tap masks the edges of the image.
"""

from __future__ import annotations

from vdla.compiler.analysis import stores
from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.inlining import operation_count
from vdla.compiler.operators.cpu.producers_consumers import consumer_of, padding_producer
from vdla.compiler.operators.cpu.register_tile import even_part, row_lanes
from vdla.compiler.operators.cpu.threads import thread_plan
from vdla.compiler.operators.roles import PHASES
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_MOST_TAPS = 49  # of a window whose taps are unrolled, so that rows that results share are loaded once
_FEW_TAPS = 9  # of a window with masked loads in several vectors a row, each with its own code
_REGISTERS_PER_SUM = 4


def schedule_depthwise_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the consumer of the sums, and compute the padding and the sums inside."""
    nest = block_nest(schedule.fn, block)
    rows, columns, *taps = (nominal_extent(axis.extent) for axis in nest.leaf.block.axes[2:])
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
    loops = schedule.loops(block)
    n, channel, row, column, *reduce = loops[loops.index(column_outer) + 1 :]
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
